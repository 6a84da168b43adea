// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/run.hpp"
#include "tests/sim/world.hpp"

namespace hvd::sim {

/// Compares how the job ended for horovodrun with what has really happened; adds complaints.
void verify(World& world, Outcome& outcome);

}  // namespace hvd::sim
