// SPDX-License-Identifier: Apache-2.0
//
// Checks of one operation each, for cases that mix them.
#pragma once

#include "tests/integration/backend_contract/contract.hpp"
#include "tests/support/exact_data.hpp"

#include <cstddef>
#include <functional>
#include <vector>

namespace hvd::test {

using Runner = void (*)(ContractRank&, const coll::Task&);

struct AlltoallCase {
    std::size_t pieces = 1;
    coll::DataType type = coll::DataType::u8;
    std::size_t left_over = 0;  // elements at the end of an input that go nowhere
    std::function<std::size_t(int from, int to, std::size_t piece)> count;
};

void check_alltoall(ContractRank& self, const AlltoallCase& what, Runner run = &run_task);

void check_reducescatter(ContractRank& self,
                         const ExactCase& what,
                         const std::vector<std::size_t>& counts,
                         bool in_place,
                         Runner run = &run_task);

}  // namespace hvd::test
