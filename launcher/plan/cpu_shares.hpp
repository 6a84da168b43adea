// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace hvd::launch {

/// Divides the CPUs of a host among its ranks: every rank gets as many as any other, or one more,
/// and no CPU goes to two ranks. `near[i]` are the CPUs close to the GPUs of rank i, empty when
/// unknown: a rank gets as much of its share from there as the ranks of the same place leave it.
/// CPUs of one share are neighbours as far as that allows. With more ranks than CPUs every share is
/// empty.
[[nodiscard]] std::vector<std::vector<int>> share_cpus(std::span<const int> allowed,
                                                       const std::vector<std::vector<int>>& near);

}  // namespace hvd::launch
