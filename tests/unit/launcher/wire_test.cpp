// SPDX-License-Identifier: Apache-2.0
#include "launcher/wire/build_id.hpp"
#include "launcher/wire/frames.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <string>

namespace hvd::launch::wire {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

JobPlan job() {
    return {.id = "j",
            .env = {{"HOME_OF_DATA", "/d"}},
            .ranks_env = {{"HOROVOD_SIZE", "9"}},
            .cwd = "/data",
            .argv = {"python", "", "a b"}};
}

HostPlan plan() {
    return {.host = "node7",
            .starter = "local",
            .slots = 4,
            .agent_socket = "horovod-1",
            .env = {{"PATH", "/bin"}, {"EMPTY", ""}, {"LINES", "a\nb=c"}},
            .ranks_env = {{"HOROVOD_HOSTNAME", "node7"}},
            .ranks = {{.rank = 3,
                       .local_rank = 1,
                       .local_size = 2,
                       .cross_rank = 5,
                       .cross_size = 6,
                       .gpus = {{.index = 1,
                                 .uuid = "GPU-1",
                                 .name = "H200",
                                 .memory_bytes = std::uint64_t{1} << 40,
                                 .cpus = {0, 2}}},
                       .cpus = {0, 1, 300},
                       .env = {{"HOROVOD_RANK", "3"}},
                       .cwd = "/data",
                       .argv = {"python", "", "a b"}},
                      {}},
            .stdin_rank = 3,
            .stdin_all = true,
            .has_terminal = true,
            .grace = std::chrono::milliseconds(1500)};
}

std::vector<FromAgent> all_from_agent() {
    Gpu gpu;
    gpu.uuid = "MIG-1";
    gpu.parent = "GPU-1";
    HostFacts facts{.hostname = "node7",
                    .machine = "x86_64",
                    .cpus = {0, 1},
                    .memory_bytes = 1 << 30,
                    .gpus = {gpu, {}},
                    .gpu_driver = {.version = "580.65", .cuda = "13.0", .link = "NVLink"},
                    .gpu_mask = "",
                    .gpu_note = "nvml: no driver",
                    .free_port = 12345,
                    .mark = "m"};
    return {
        Hello{.build_id = "x", .pid = 17},
        Facts{facts},
        Facts{},
        Started{.rank = 1, .pid = 2},
        StartFailed{.rank = 1, .step = "chdir /data", .error_number = 2, .time_ns = 0},
        StartFailed{.rank = 1,
                    .step = "execve x",
                    .error_number = 13,
                    .why_not_executed = "'x' is a directory",
                    .time_ns = 5},
        Output{.rank = 1, .stream = OutputStream::err, .time_ns = -1, .bytes = bytes_of("a\0b\n")},
        RankReport{.rank = 1,
                   .time_ns = 5,
                   .report = {.kind = coll::ReportKind::peer_lost, .peer = 2, .text = "t"}},
        Exited{.rank = 1,
               .time_ns = 6,
               .wait_status = 0x8b,
               .is_killed_by_launcher = true,
               .oom = "its cgroup's oom_kill rose by 1",
               .max_rss_bytes = 7},
        Put{.rank = 1, .request = 9, .key = "k", .value = bytes_of("v")},
        Get{.rank = 1, .request = 0xffffffff, .key = "k"},
        Note{.text = "ü"},
        StepSignal{.signal = 15},
        RankActivity{.rank = 1, .state = "D", .wait_channel = "nfs", .cpu_ms = 70},
        Leaving{.time_ns = -7, .signal = 15, .why = "the agent got SIGTERM"},
        Found{.marks = {"b"}},
        Checked{.problems = {{.exit_code = 127, .text = "no such program"}},
                .nccl = {.version = "2.27.3", .file = "/lib/libnccl.so.2"},
                .wall_ns = 8},
        LinkOpen{.id = 1, .record = bytes_of("r"), .error = "e"},
        LinkMeasured{.id = 1,
                     .address = "10.0.0.2:4711 (eth0)",
                     .round_trip_ns = 40'000,
                     .bytes_per_second = std::uint64_t{1} << 33,
                     .error = "e"},
        PortPicked{.port = 4711, .taken = "by whom"},
        AllGone{},
        AllGone{.survivors = {{.pid = 5, .state = "D", .wchan = "nfs"}, {}}},
        InputTaken{.bytes = 3},
        Pong{.asked_ns = -1, .heard_ns = 2, .answered_ns = 3}};
}

std::vector<ToAgent> all_to_agent() {
    return {
        Start{.job = job(), .plan = plan()},
        Start{},
        Signal{.number = 10},
        Stop{.grace_ms = 500},
        Input{.bytes = bytes_of("x")},
        Input{},
        Credit{.bytes = std::uint64_t{1} << 60},
        PutDone{.rank = 1, .request = 2, .error = "no"},
        GetValue{.rank = 1, .request = 2, .value = bytes_of("v")},
        Ping{.asked_ns = 4, .lease_ms = 30'000},
        Check{.job = job(), .plan = plan(), .np = 9, .is_examination = true},
        Seek{.marks = {"a", "b"}},
        OpenLink{.id = 1, .secret = bytes_of("s"), .interfaces = "ib*", .ports = "7-9"},
        MeasureLink{.id = 1, .secret = bytes_of("s"), .interfaces = "", .record = bytes_of("r")},
        CloseLink{.id = 1},
        Ended{.exit_code = 137, .text = "culprit: rank 1"},
        PickPort{.first = 7, .last = 9},
        PeerLost{.rank = 3, .why = "rank 3 has died"},
        Inspect{.ranks = {1, 3}},
        WindowSize{.rows = 24, .columns = 65535}};
}

template <class Message>
std::vector<std::byte> stream_of(const std::vector<Message>& messages) {
    auto stream = bytes_of(kMagic);
    for (const auto& message : messages) {
        const auto frame = encode(message);
        stream.insert(stream.end(), frame.begin(), frame.end());
    }
    return stream;
}

/// Feeds the stream in pieces of `step` bytes.
template <class Message>
std::vector<Message> read_all(const std::vector<std::byte>& stream, std::size_t step) {
    FrameReader<Message> reader;
    std::vector<Message> messages;
    for (std::size_t at = 0; at < stream.size(); at += step) {
        reader.feed(std::span(stream).subspan(at, std::min(step, stream.size() - at)));
        while (true) {
            auto message = reader.next();
            REQUIRE(message.has_value());
            if (!*message) {
                break;
            }
            messages.push_back(std::move(**message));
        }
    }
    return messages;
}

/// The error of a stream that begins with the magic, or "" while it asks for more.
template <class Message>
std::string complaint(std::vector<std::byte> after_magic) {
    auto stream = bytes_of(kMagic);
    stream.insert(stream.end(), after_magic.begin(), after_magic.end());
    FrameReader<Message> reader;
    reader.feed(stream);
    const auto message = reader.next();
    return message ? "" : message.error().message;
}

std::vector<std::byte> frame_of(std::uint8_t type, std::string_view body) {
    std::vector<std::byte> frame(4);
    const auto length = static_cast<std::uint32_t>(body.size() + 1);
    std::memcpy(frame.data(), &length, sizeof length);
    frame.push_back(std::byte{type});
    const auto rest = bytes_of(body);
    frame.insert(frame.end(), rest.begin(), rest.end());
    return frame;
}

TEST_CASE("every message arrives as it was sent, however the stream is cut") {
    const auto step = GENERATE(values<std::size_t>({1, 3, 4, 5, 8, 64, 1U << 20}));
    CAPTURE(step);

    CHECK((read_all<FromAgent>(stream_of(all_from_agent()), step) == all_from_agent()));
    CHECK((read_all<ToAgent>(stream_of(all_to_agent()), step) == all_to_agent()));
}

TEST_CASE("the test sends every kind of message") {
    std::vector<bool> from(std::variant_size_v<FromAgent>);
    std::vector<bool> to(std::variant_size_v<ToAgent>);

    for (const auto& message : all_from_agent()) {
        from[message.index()] = true;
    }
    for (const auto& message : all_to_agent()) {
        to[message.index()] = true;
    }

    CHECK(std::ranges::find(from, false) == from.end());
    CHECK(std::ranges::find(to, false) == to.end());
}

TEST_CASE("a header and its payload are the frame of the whole output") {
    const Output empty{.rank = 7, .stream = OutputStream::err, .time_ns = 99, .bytes = {}};
    auto whole = empty;
    whole.bytes = bytes_of(std::string(1000, 'x'));

    auto frame = encode_output_header(empty, whole.bytes.size());
    frame.insert(frame.end(), whole.bytes.begin(), whole.bytes.end());

    CHECK((frame == encode(FromAgent{whole})));
}

TEST_CASE("a stream that does not begin with the magic is refused at its first wrong byte") {
    FrameReader<FromAgent> reader;
    reader.feed(bytes_of("HVDWelcome to node7\n"));

    const auto message = reader.next();

    REQUIRE_FALSE(message.has_value());
    CHECK_THAT(message.error().message, Catch::Contains("something else writes to its standard"));
}

TEST_CASE("a malformed frame is an error, not a guess") {
    CHECK(complaint<ToAgent>({}) == "");
    CHECK_THAT(complaint<ToAgent>(std::vector(4, std::byte{0})), Catch::Contains("frame of 0"));
    CHECK_THAT(complaint<ToAgent>(std::vector(4, std::byte{0xff})),
               Catch::Contains("frame of 4294967295 bytes"));
    CHECK_THAT(complaint<ToAgent>(frame_of(1, "")), Catch::Contains("unknown type 1"));
    CHECK_THAT(complaint<FromAgent>(frame_of(129, "")), Catch::Contains("unknown type 129"));
    CHECK_THAT(complaint<FromAgent>(frame_of(255, "")), Catch::Contains("unknown type 255"));
    CHECK_THAT(complaint<FromAgent>(frame_of(3, "short")), Catch::Contains("truncated"));
    CHECK_THAT(complaint<FromAgent>(frame_of(3, std::string(64, 'x'))),
               Catch::Contains("unexpected"));
}

TEST_CASE("every cut and every extended frame is refused") {
    for (const auto& message : all_to_agent()) {
        auto frame = encode(message);
        const auto announce = [&frame] {
            const auto length = static_cast<std::uint32_t>(frame.size() - 4);
            std::memcpy(frame.data(), &length, sizeof length);
        };
        CAPTURE(message.index());

        frame.push_back(std::byte{0});
        announce();
        CHECK_THAT(complaint<ToAgent>(frame), Catch::Contains("unexpected"));

        frame.erase(frame.end() - 2, frame.end());
        announce();
        CHECK_FALSE(complaint<ToAgent>(frame).empty());
    }
}

TEST_CASE("values out of their range are refused") {
    auto output = encode(FromAgent{Output{.stream = OutputStream::err, .bytes = {}}});
    output[9] = std::byte{2};  // length, type, rank, then the stream
    auto exited = encode(FromAgent{Exited{}});
    exited[21] = std::byte{2};  // length, type, rank, time, status, then `is_killed_by_launcher`

    CHECK_THAT(complaint<FromAgent>(output), Catch::Contains("out of range"));
    CHECK_FALSE(complaint<FromAgent>(exited).empty());
}

TEST_CASE("a forged count allocates nothing") {
    // An AllGone that announces four thousand million survivors.
    const auto frame = frame_of(11, "\xff\xff\xff\xff");

    CHECK_THAT(complaint<FromAgent>(frame), Catch::Contains("truncated or malformed"));
}

TEST_CASE("the build id names the version and the protocol") {
    const auto version = std::string(product_version());

    CHECK_FALSE(version.empty());
    CHECK_THAT(std::string(build_id()), Catch::StartsWith(version + "+"));
    CHECK(build_id().size() == version.size() + 13);
}

}  // namespace
}  // namespace hvd::launch::wire
