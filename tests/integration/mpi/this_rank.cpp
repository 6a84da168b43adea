// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/mpi/this_rank.hpp"

#include "collectives/base/env.hpp"

namespace hvd::test {

std::string this_rank_variable(const char* name) {
    const auto value = read_env(name);
    if (!value) {
        throw std::runtime_error(std::string(name) + " is not set: run integration_mpi instead");
    }
    return *value;
}

coll::mpi::Session& this_rank_session() {
    static const auto session = value_of(
        coll::mpi::Session::start({.environment = current_environment(),
                                   .plugin_folder = this_rank_variable("HVD_TEST_PLUGINS")}));
    session->leave();
    return *session;
}

}  // namespace hvd::test
