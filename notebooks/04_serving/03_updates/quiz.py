"""Four questions on updates of a model that serves."""

from ctrlab.lessons.quiz import Question

QUESTIONS = (
    Question(
        "Row 7 was in cut 4. It changes again while the file of cut 4 is written. Then cut 4 is confirmed. Is row 7 in cut 5?",
        right="Yes: file 4 holds an older row 7.",
        because="A confirmation covers the changes before its cut. This change came after it.",
        wrong={
            "No: a confirmed cut takes all its keys out of the log.": "Then the servers would keep the older row until it "
            "changes again, perhaps for ever.",
            "Only if the disk refuses file 4.": "Even a file that is written well has the row as it was at the cut.",
            "Yes, because each cut holds all keys of all cuts before.": "It holds only what no confirmed cut has. Row 7 is "
            "there because it changed again.",
        },
    ),
    Question(
        "An update holds table rows and dense weights. Why must both change between two requests, and not one after the other?",
        right="Rows of one moment, multiplied by dense weights of another, are a model that nobody trained.",
        because="Each step changes rows and dense weights to fit each other. No error shows it: the scores are just a little "
        "wrong.",
        wrong={
            "The server would crash if it reads while somebody writes.": "It reads floats, old or new ones. It would not "
            "crash, so nobody would notice.",
            "The dense weights are copied faster than the rows.": "How long each copy takes does not matter. What matters is "
            "that a request sees both before, or both after.",
            "The file would be read twice.": "A server reads it once, in the preparation, whatever it changes first.",
        },
    ),
    Question(
        "A busy server has a request inside at every moment. Which rule lets an update in?",
        right="Once an update waits, requests that come later wait behind it.",
        because="The requests inside leave one after the other, nobody takes their place, and soon nobody is inside.",
        wrong={
            "The update waits until nobody is inside.": "On a busy server this moment never comes: the update starves.",
            "The update closes the gate before it is prepared.": "This makes all requests wait longer, and does not decide who "
            "goes first.",
            "Requests wait for each other, as with a plain lock.": "Then one request at a time is inside, and the update may "
            "still be the last in the queue.",
        },
    ),
    Question(
        "Update 3 is missing in the folder, and update 4 is there. What should a server do?",
        right="Stay at update 2, say what is missing, and go on when update 3 or a new version comes.",
        because="Rows that only update 3 changed would stay old for ever, beside dense weights of update 4.",
        wrong={
            "Take update 4: it is newer.": "It holds what changed since update 3. What changed before would be missing without "
            "a word.",
            "Stop answering until somebody repairs the folder.": "Its weights are of one moment, just older. Old answers are "
            "better than none.",
            "Take update 4 without its table rows.": "Then new dense weights would meet old rows: the two moments that the "
            "gate prevents.",
        },
    ),
)
