// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/rank_files.hpp"

#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <string>
#include <string_view>

using hvd::launch::Chunk;
using hvd::launch::LauncherLog;
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

Chunk words(std::string_view text, std::int64_t time_ns) {
    auto chunk = data(0, OutputStream::err, text);
    chunk.kind = Chunk::Kind::notice;
    chunk.time_ns = time_ns;
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
    const auto files = RankFiles::create(folder.path() / "new" / "dir", 2, {});
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

    const auto files = RankFiles::create(file / "below", 1, {});

    REQUIRE_FALSE(files);
    CHECK(files.error().code == hvd::Errc::invalid_argument);
    CHECK(files.error().message.find(file.string()) != std::string::npos);
}

TEST_CASE("no link below the folder is followed: what it leads to stays as it is") {
    const TempDir folder;
    const auto other = folder.path() / "other";
    std::filesystem::create_directories(other / "deep");
    const auto file = folder.write("other/stdout", "precious");
    const auto place = folder.path() / "place";
    std::filesystem::create_directories(place / "rank.0");
    const auto target = GENERATE("stdout", "stderr", "rank.1", "launcher.log");
    CAPTURE(target);
    const auto link =
        (std::string_view(target).starts_with("std") ? place / "rank.0" : place) / target;
    std::filesystem::create_symlink(target == std::string_view("stdout")   ? file
                                    : target == std::string_view("rank.1") ? other
                                                                           : other / "new",
                                    link);

    const auto log = LauncherLog::create(place);
    const auto files = RankFiles::create(place, 2, {});

    REQUIRE_FALSE((log && files));
    const auto& message = log ? files.error().message : log.error().message;
    CHECK(message == "--output-filename: cannot write " + link.string() +
                         ": it is a symbolic link; remove it");
    CHECK(TempDir::read(file) == "precious");
    CHECK_FALSE(std::filesystem::exists(other / "new"));
    CHECK_FALSE(std::filesystem::exists(other / "stderr"));
}

TEST_CASE("a full disk is told once, and other files go on") {
    const TempDir folder;
    const auto place = folder.path() / "rank.0";
    std::filesystem::create_directories(place);
    std::filesystem::create_symlink("/dev/full", place / "stdout");
    int told = 0;
    const auto files = RankFiles::create(
        folder.path(), 1,
        {.on_error = [&](const std::string& /*text*/) { ++told; }, .on_log_error = {}});
    REQUIRE(files);

    (*files)->take(data(0, OutputStream::out, "lost"));
    (*files)->take(data(0, OutputStream::out, "lost"));
    (*files)->take(data(0, OutputStream::err, "kept"));

    CHECK(told == 1);
    CHECK(TempDir::read(place / "stderr") == "kept");
}

TEST_CASE("what is of no rank has no file") {
    const TempDir folder;
    const auto files = RankFiles::create(folder.path(), 1, {});
    REQUIRE(files);

    (*files)->take(data(1, OutputStream::out, "mpirun's own"));
    (*files)->take(words("horovodrun: hello\n", 0));

    CHECK(TempDir::read(folder.path() / "rank.0" / "stdout").empty());
}

TEST_CASE("words of horovodrun go to its log, each line with its time") {
    const TempDir folder;
    auto log = LauncherLog::create(folder.path());
    REQUIRE(log);
    const auto files = RankFiles::create(folder.path(), 1, {}, log->get());
    REQUIRE(files);

    REQUIRE((*log)->write(1'000, "horovodrun: before\n"));
    (*files)->take(words("horovodrun: one\nhorovodrun: two\n", 2'000));

    CHECK(TempDir::read(folder.path() / "launcher.log") ==
          "1970-01-01T00:00:00.000001Z horovodrun: before\n"
          "1970-01-01T00:00:00.000002Z horovodrun: one\n"
          "1970-01-01T00:00:00.000002Z horovodrun: two\n");
}

TEST_CASE("a log that cannot be written is told once, unless output of ranks is lost too") {
    const TempDir folder;
    std::filesystem::create_symlink("/dev/full", folder.path() / "launcher.log");
    std::string told;
    const bool is_output_lost = GENERATE(false, true);
    std::filesystem::create_directories(folder.path() / "rank.0");
    if (is_output_lost) {
        std::filesystem::create_symlink("/dev/full", folder.path() / "rank.0" / "stdout");
    }
    auto log = LauncherLog::create(folder.path());
    REQUIRE(log);
    const auto files =
        RankFiles::create(folder.path(), 1,
                          {.on_error = [&](const std::string& /*text*/) { told += "output "; },
                           .on_log_error = [&](const std::string& /*text*/) { told += "log "; }},
                          log->get());
    REQUIRE(files);

    (*files)->take(data(0, OutputStream::out, "some"));
    (*files)->take(words("horovodrun: one\n", 0));
    (*files)->take(words("horovodrun: two\n", 0));

    CHECK(told == (is_output_lost ? "output " : "log "));
}
