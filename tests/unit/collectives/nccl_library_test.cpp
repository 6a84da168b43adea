// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/env.hpp"
#include "collectives/cuda/shared_library.hpp"
#include "collectives/nccl/library.hpp"
#include "tests/support/test_main.hpp"

#include <catch2/catch.hpp>

#include <string>

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using hvd::Errc;
using hvd::coll::nccl::open_library;
using hvd::coll::nccl::version_text;

// A loaded library stays: each case needs a new process, which ctest starts for it.

namespace {

const std::string kFakes = HVD_FAKES;
const std::string kFake = kFakes + "fake_nccl/libnccl.so.2";
const std::string kOld = kFakes + "fake_nccl_old/libnccl.so.2";

bool has_nccl() {
    return !hvd::coll::cuda::loaded_libraries("libnccl.so").empty();
}

/// Whether the case may go on; a whole run of this program stops at the first library.
bool is_own_process() {
    if (has_nccl()) {
        hvd::test::skip("another case has loaded an NCCL: run each case for itself, as ctest does");
        return false;
    }
    return true;
}

}  // namespace

TEST_CASE("the NCCL that is named is taken") {
    if (!is_own_process()) {
        return;
    }
    const auto library = open_library({.named = kFake, .folders = {kFakes + "fake_nccl_old"}});

    REQUIRE(library);
    CHECK(library->version == 22805);
    CHECK_THAT(library->path, EndsWith("fake_nccl/libnccl.so.2"));
    CHECK(library->ncclCommRegister != nullptr);
}

TEST_CASE("the NCCL that is named is an error where another is loaded, and is not opened then") {
    if (!is_own_process()) {
        return;
    }
    REQUIRE(hvd::coll::cuda::open_library(kOld));

    const auto library = open_library({.named = kFake, .folders = {}});

    REQUIRE_FALSE(library);
    CHECK(library.error().code == Errc::invalid_argument);
    CHECK_THAT(library.error().message,
               Contains("HOROVOD_NCCL_LIBRARY=" + kFake) && Contains("another NCCL, " + kOld));
    CHECK(hvd::coll::cuda::loaded_libraries("libnccl.so").size() == 1);
}

TEST_CASE("the NCCL that is loaded may be named") {
    if (!is_own_process()) {
        return;
    }
    REQUIRE(hvd::coll::cuda::open_library(kFake));

    CHECK(open_library({.named = kFakes + "/fake_nccl/../fake_nccl/libnccl.so.2", .folders = {}}));
}

TEST_CASE("the NCCL that is loaded comes before those of folders") {
    if (!is_own_process()) {
        return;
    }
    REQUIRE(hvd::coll::cuda::open_library(kFake));

    const auto library = open_library({.named = {}, .folders = {kFakes + "fake_nccl_old"}});

    REQUIRE(library);
    CHECK_THAT(library->path, EndsWith("fake_nccl/libnccl.so.2"));
}

TEST_CASE("the first folder that has an NCCL is taken") {
    if (!is_own_process()) {
        return;
    }
    const auto library =
        open_library({.named = {}, .folders = {kFakes + "nothing", kFakes + "fake_nccl"}});

    REQUIRE(library);
    CHECK_THAT(library->path, EndsWith("fake_nccl/libnccl.so.2"));
}

TEST_CASE("an NCCL that is too old is named with its version and path") {
    if (!is_own_process()) {
        return;
    }
    const auto library = open_library({.named = kOld, .folders = {}});

    REQUIRE_FALSE(library);
    CHECK(library.error().code == Errc::unsupported);
    CHECK_THAT(library.error().message,
               Contains("NCCL 2.17.2 (" + kOld + ") is too old") && Contains("2.18.3 or later"));
}

TEST_CASE("a file that is named and is no library is an error that says so") {
    const auto library = open_library({.named = "/nothing/libnccl.so.2", .folders = {}});

    REQUIRE_FALSE(library);
    CHECK(library.error().code == Errc::invalid_argument);
    CHECK_THAT(library.error().message, Contains("HOROVOD_NCCL_LIBRARY=/nothing/libnccl.so.2"));
}

TEST_CASE("without an NCCL the error tells every place") {
    if (!is_own_process()) {
        return;
    }
    const auto library = open_library({.named = {}, .folders = {"/nothing/lib"}});

    if (library) {
        hvd::test::skip("this machine's system has an NCCL, as one with a GPU may");
        return;
    }
    CHECK(library.error().code == Errc::unsupported);
    CHECK_THAT(library.error().message, Contains("/nothing/lib/libnccl.so.2 is not there") &&
                                            Contains("pip install nvidia-nccl-cu12"));
}

TEST_CASE("a real NCCL has every function of the table") {
    if (!is_own_process()) {
        return;
    }
    // scripts/nccl_versions.sh names other versions of it.
    const auto real = hvd::read_env("HVD_TEST_NCCL").value_or(HVD_REAL_NCCL);
    if (real.empty()) {
        hvd::test::skip("no libnccl.so.2 beside nccl.h: scripts/prepare.sh installs one");
        return;
    }
    const auto library = open_library({.named = real, .folders = {}});

    REQUIRE(library);
    CAPTURE(library->version);
#define CHECK_MEMBER(name) CHECK(library->name != nullptr);
#define CHECK_LATER_MEMBER(name, since) \
    CHECK((library->name != nullptr || library->version < (since)));
    HVD_NCCL_FUNCTIONS(CHECK_MEMBER)
    HVD_NCCL_LATER_FUNCTIONS(CHECK_LATER_MEMBER)
#undef CHECK_LATER_MEMBER
#undef CHECK_MEMBER
}

TEST_CASE("versions of NCCL are printed as NCCL prints them") {
    CHECK(version_text(2708) == "2.7.8");
    CHECK(version_text(21803) == "2.18.3");
    CHECK(version_text(23203) == "2.32.3");
}
