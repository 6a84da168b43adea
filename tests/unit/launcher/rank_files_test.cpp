// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/rank_files.hpp"

#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <string>
#include <string_view>

using hvd::launch::Chunk;
using hvd::launch::OutputStream;
using hvd::launch::rank_folder_name;
using hvd::launch::RankFiles;
using hvd::test::TempDir;

namespace {

Chunk data(int rank, OutputStream stream, std::string_view text) {
    Chunk chunk;
    chunk.rank = rank;
    chunk.stream = stream;
    const auto* raw = reinterpret_cast<const std::byte*>(text.data());
    chunk.bytes.assign(raw, raw + text.size());
    return chunk;
}

}  // namespace

TEST_CASE("the folder of a rank has as many digits as the last rank") {
    CHECK(rank_folder_name(0, 1) == "rank.0");
    CHECK(rank_folder_name(3, 10) == "rank.3");
    CHECK(rank_folder_name(3, 11) == "rank.03");
    CHECK(rank_folder_name(64, 1001) == "rank.0064");
}

TEST_CASE("files hold the bytes of each rank and stream, without prefixes") {
    const TempDir folder;
    const auto files = RankFiles::create(folder.path() / "new" / "dir", 2, nullptr);
    REQUIRE(files);

    (*files)->take(data(0, OutputStream::out, "a"));
    (*files)->take(data(1, OutputStream::out, std::string_view("\0\xff", 2)));
    (*files)->take(data(0, OutputStream::out, "b\n"));
    (*files)->take(data(0, OutputStream::err, "c"));

    const auto place = folder.path() / "new" / "dir";
    CHECK(TempDir::read(place / "rank.0" / "stdout") == "ab\n");
    CHECK(TempDir::read(place / "rank.0" / "stderr") == "c");
    CHECK(TempDir::read(place / "rank.1" / "stdout") == std::string("\0\xff", 2));
    CHECK(std::filesystem::exists(place / "rank.1" / "stderr"));
}

TEST_CASE("a place that cannot be written is refused at once, with its name") {
    const TempDir folder;
    const auto file = folder.write("file", "");

    const auto files = RankFiles::create(file / "below", 1, nullptr);

    REQUIRE_FALSE(files);
    CHECK(files.error().code == hvd::Errc::invalid_argument);
    CHECK(files.error().message.find(file.string()) != std::string::npos);
}

TEST_CASE("a full disk is told once, and other files go on") {
    const TempDir folder;
    const auto place = folder.path() / "rank.0";
    std::filesystem::create_directories(place);
    std::filesystem::create_symlink("/dev/full", place / "stdout");
    int told = 0;
    const auto files =
        RankFiles::create(folder.path(), 1, [&](const std::string& /*text*/) { ++told; });
    REQUIRE(files);

    (*files)->take(data(0, OutputStream::out, "lost"));
    (*files)->take(data(0, OutputStream::out, "lost"));
    (*files)->take(data(0, OutputStream::err, "kept"));

    CHECK(told == 1);
    CHECK(TempDir::read(place / "stderr") == "kept");
}
