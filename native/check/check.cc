// The checks of all kernels in one program; see harness.h. For a learner's kernel only those of its own header are compiled.

#include "check_attention.h"
#include "check_auxiliary.h"
#include "check_batch_norm.h"
#include "check_experts.h"
#include "check_gru.h"
#include "check_indicator.h"
#include "check_interaction.h"
#include "check_lookup.h"
#include "check_optimizer_step.h"
#include "check_parsing.h"
#include "check_pointwise.h"
#include "check_snapshot.h"

int main(int argc, char** argv) {
  using namespace ctrlab::check;
  return Main(argc, argv,
              {
                  attention::entries,
                  auxiliary::entries,
                  batch_norm::entries,
                  experts::entries,
                  gru::entries,
                  indicator::entries,
                  interaction::entries,
                  lookup::entries,
                  optimizer_step::entries,
                  parsing::entries,
                  pointwise::entries,
                  snapshot::entries,
              });
}
