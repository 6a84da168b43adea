// SPDX-License-Identifier: Apache-2.0
#include "launcher/mpi_memory.hpp"

#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <sys/stat.h>
#include <utime.h>

using namespace hvd::launch;
namespace fs = std::filesystem;

namespace {

constexpr auto kNobodyElse = fs::perms::owner_all;

/// A program that is one, a cache, and the variables that lead to both.
struct Place {
    hvd::test::TempDir folder;
    hvd::Environment environment{{"PATH", (folder.path() / "bin").string()},
                                 {"XDG_CACHE_HOME", (folder.path() / "cache").string()}};

    Place() {
        fs::create_directory(folder.path() / "bin");
        write_program("\177ELF");
    }

    void write_program(const std::string& bytes) const {
        const auto path = folder.path() / "bin" / "mpirun";
        std::ofstream(path) << bytes;
        fs::permissions(path, kNobodyElse);
    }

    [[nodiscard]] MpiMemory memory() const { return {"mpirun", environment}; }
    [[nodiscard]] fs::path cache() const { return folder.path() / "cache" / "horovodrun"; }
    [[nodiscard]] fs::path file() const { return fs::directory_iterator(cache())->path(); }

    void set(const char* name, const char* value) { environment.insert_or_assign(name, value); }
};

}  // namespace

TEST_CASE("what mpirun said is remembered for its file") {
    const Place place;
    CHECK_FALSE(place.memory().recall());

    place.memory().keep("mpirun (Open MPI) 4.1.4\n");

    CHECK(place.memory().recall() == "mpirun (Open MPI) 4.1.4\n");
    CHECK(fs::status(place.cache()).permissions() == kNobodyElse);
    CHECK(fs::status(place.file()).permissions() ==
          (fs::perms::owner_read | fs::perms::owner_write));
    const fs::directory_iterator files(place.cache());
    CHECK(std::distance(begin(files), end(files)) == 1);
}

TEST_CASE("another file or another setting of MPI is asked again") {
    Place place;
    place.memory().keep("4");

    SECTION("a changed file") {
        place.write_program("\177ELF2");
        CHECK_FALSE(place.memory().recall());
        place.memory().keep("5");
        CHECK(place.memory().recall() == "5");
    }
    SECTION("a variable that an MPI reads") {
        place.set("OPAL_PREFIX", "/opt/other");
        CHECK_FALSE(place.memory().recall());
    }
    SECTION("a variable of the linker") {
        place.set("LD_LIBRARY_PATH", "/opt/other/lib");
        CHECK_FALSE(place.memory().recall());
    }
    SECTION("any other variable changes nothing") {
        place.set("HOSTNAME", "b");
        CHECK(place.memory().recall() == "4");
    }
}

TEST_CASE("nothing is remembered for a script or what is not there") {
    Place place;

    SECTION("a script") {
        place.write_program("#!/bin/sh\n");
    }
    SECTION("no program") {
        place.set("PATH", "/nowhere");
    }
    SECTION("no cache") {
        place.environment.erase("XDG_CACHE_HOME");
    }
    place.memory().keep("4");

    CHECK_FALSE(place.memory().recall());
}

TEST_CASE("a memory that others could have written is ignored") {
    const Place place;
    place.memory().keep("4");
    REQUIRE(place.memory().recall());

    SECTION("a folder open to others") {
        fs::permissions(place.cache(), fs::perms::group_write, fs::perm_options::add);
    }
    SECTION("a file open to others") {
        fs::permissions(place.file(), fs::perms::others_write, fs::perm_options::add);
    }
    SECTION("a link") {
        const auto elsewhere = place.folder.path() / "elsewhere";
        const auto file = place.file();
        fs::rename(file, elsewhere);
        fs::create_symlink(elsewhere, file);
    }
    SECTION("a file of yesterday") {
        constexpr std::time_t kYesterday = 25L * 60 * 60;
        const auto then = std::time(nullptr) - kYesterday;
        const utimbuf times{.actime = then, .modtime = then};
        REQUIRE(::utime(place.file().c_str(), &times) == 0);
    }
    SECTION("a broken file") {
        fs::resize_file(place.file(), 3);
    }
    SECTION("a file without an answer") {
        fs::resize_file(place.file(), fs::file_size(place.file()) - 1);
    }

    CHECK_FALSE(place.memory().recall());
}

TEST_CASE("a folder that others may write to gets nothing") {
    const Place place;
    fs::create_directories(place.cache());
    fs::permissions(place.cache(), fs::perms::all);

    place.memory().keep("4");

    CHECK(fs::is_empty(place.cache()));
}
