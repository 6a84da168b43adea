// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/run.hpp"
#include "tests/sim/world.hpp"

namespace hvd::sim {

/// Compares horovodrun's result with the simulated events; adds complaints.
void verify(World& world, Outcome& outcome);

}  // namespace hvd::sim
