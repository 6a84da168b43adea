// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/foreign_launch.hpp"

#include <catch2/catch.hpp>

#include <string>

#include <unistd.h>

using hvd::Environment;
using hvd::rt::decode_foreign_launch;
using hvd::rt::find_launcher;

namespace {

Environment open_mpi() {
    return {{"OMPI_COMM_WORLD_RANK", "1"},
            {"OMPI_COMM_WORLD_SIZE", "4"},
            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
            {"PMIX_NAMESPACE", "1888026625"}};
}

}  // namespace

TEST_CASE("no launcher is no error") {
    const auto launch = decode_foreign_launch({{"PATH", "/bin"}});

    REQUIRE(launch);
    CHECK_FALSE(*launch);
}

TEST_CASE("Open MPI's variables are read") {
    const auto launch = decode_foreign_launch(open_mpi());

    REQUIRE(launch);
    REQUIRE(*launch);
    CHECK((*launch)->topology == hvd::coll::Topology{.rank = 1,
                                                     .size = 4,
                                                     .local_rank = 1,
                                                     .local_size = 4,
                                                     .cross_rank = 0,
                                                     .cross_size = 1});
    CHECK((*launch)->mark == "PMIX_NAMESPACE=1888026625");
}

TEST_CASE("hydra's variables are read; without a job's name the rank's variable marks it") {
    const auto launch = decode_foreign_launch(
        {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}});

    REQUIRE(launch);
    REQUIRE(*launch);
    CHECK((*launch)->topology.size == 2);
    CHECK((*launch)->mark == "PMI_RANK=");
}

TEST_CASE("what is missing or impossible is named") {
    auto missing = open_mpi();
    missing.erase("OMPI_COMM_WORLD_LOCAL_SIZE");
    auto word = open_mpi();
    word["OMPI_COMM_WORLD_SIZE"] = "four";
    auto beyond = open_mpi();
    beyond["OMPI_COMM_WORLD_RANK"] = "4";

    CHECK(decode_foreign_launch(missing).error().message ==
          "the environment of Open MPI's mpirun: OMPI_COMM_WORLD_LOCAL_SIZE is missing");
    CHECK(decode_foreign_launch(word).error().message.find("'four'") != std::string::npos);
    CHECK_FALSE(decode_foreign_launch(beyond));
}

TEST_CASE("the launcher is the nearest process without the mark") {
    const auto launcher = find_launcher("A_MARK_THAT_NOBODY_HAS=");

    REQUIRE(launcher);
    CHECK(launcher->pid == ::getpid());
    CHECK_FALSE(launcher->start_time.empty());
}
