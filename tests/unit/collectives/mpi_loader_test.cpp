// SPDX-License-Identifier: Apache-2.0
#include "collectives/mpi/loader.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <string_view>
#include <vector>

using hvd::Environment;
using hvd::Errc;
using hvd::coll::mpi::choose_library;
using hvd::coll::mpi::kDebianMpichLibrary;
using hvd::coll::mpi::kOpenMpiLibrary;
using hvd::coll::mpi::open_library;

namespace {

using Names = std::vector<std::string>;
using Loaded = std::vector<std::string_view>;

const Environment kUnderOpenMpi{{"OMPI_COMM_WORLD_SIZE", "2"}};
const Environment kUnderMpich{{"PMI_RANK", "0"}};

}  // namespace

TEST_CASE("the launcher's MPI is taken where the process has none") {
    CHECK(choose_library(kUnderOpenMpi, {})->names == Names{"libmpi.so.40"});
    CHECK(choose_library(kUnderMpich, {})->names == Names{"libmpi.so.12", "libmpich.so.12"});
}

TEST_CASE("the MPI that the process has loaded wins over the launcher's") {
    const Loaded loaded{kDebianMpichLibrary};

    CHECK(choose_library(kUnderOpenMpi, loaded)->names == Names{"libmpich.so.12"});
}

TEST_CASE("the user's word wins over everything") {
    auto environment = kUnderMpich;
    environment["HOROVOD_MPI_LIBRARY"] = "/opt/mpi/libmpi.so";
    const Loaded loaded{kOpenMpiLibrary, kDebianMpichLibrary};

    CHECK(choose_library(environment, loaded)->names == Names{"/opt/mpi/libmpi.so"});
}

TEST_CASE("two MPIs in one process are refused by name") {
    const Loaded loaded{kOpenMpiLibrary, kDebianMpichLibrary};

    const auto choice = choose_library(kUnderOpenMpi, loaded);

    REQUIRE(!choice.has_value());
    CHECK(choice.error().code == Errc::invalid_argument);
    CHECK(choice.error().message.find("libmpi.so.40 and libmpich.so.12") != std::string::npos);
}

TEST_CASE("without any MPI in sight the remedy is mpirun") {
    const auto choice = choose_library({}, {});

    REQUIRE(!choice.has_value());
    CHECK(choice.error().code == Errc::unsupported);
    CHECK(choice.error().message.find("mpirun -np N") != std::string::npos);
}

TEST_CASE("what is no MPI library is said to be none") {
    const auto library = open_library({.names = {"libm.so.6"}, .reason = "a test"}, "/nowhere");

    REQUIRE(!library.has_value());
    CHECK(library.error().message.find("libm.so.6: it is not an MPI library") != std::string::npos);
}
