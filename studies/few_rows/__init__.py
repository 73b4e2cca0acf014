"""`ctrlab bench few-rows`: the AUC of our models on few rows, beside logistic regression and gradient boosting."""
