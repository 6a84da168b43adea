// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/writer_thread.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <latch>
#include <memory>
#include <semaphore>
#include <string>
#include <string_view>
#include <utility>

using hvd::launch::Chunk;
using hvd::launch::Sink;
using hvd::launch::WriterThread;

namespace {

Chunk chunk(std::string_view text) {
    Chunk made;
    const auto* raw = reinterpret_cast<const std::byte*>(text.data());
    made.bytes.assign(raw, raw + text.size());
    return made;
}

/// Keeps the bytes that it gets; the test may hold it up.
class SlowSink final : public Sink {
public:
    SlowSink(std::string& text, std::counting_semaphore<>& gate) : text_(text), gate_(gate) {}

    void take(const Chunk& given) override {
        gate_.acquire();
        text_ += given.text();
    }
    void flush() override {}

private:
    std::string& text_;
    std::counting_semaphore<>& gate_;
};

}  // namespace

TEST_CASE("what is pushed is written in order, and all of it before the end") {
    std::string text;
    std::counting_semaphore<> gate{1000};
    {
        WriterThread writer(std::make_unique<SlowSink>(text, gate), [] {});
        for (const auto* part : {"a", "b", "c", "d"}) {
            writer.push(chunk(part));
        }
    }
    CHECK(text == "abcd");
}

TEST_CASE("a sink that is held up shows as pending bytes and blocks nobody") {
    std::string text;
    std::counting_semaphore<> gate{0};
    std::latch idle{1};
    WriterThread writer(std::make_unique<SlowSink>(text, gate), [&] { idle.count_down(); });

    writer.push(chunk("12345"));
    CHECK(writer.pending_bytes() == 5);
    CHECK_FALSE(writer.is_idle());
    gate.release();
    idle.wait();

    CHECK(writer.pending_bytes() == 0);
    CHECK(writer.is_idle());
    CHECK(text == "12345");
}

TEST_CASE("progress is told without asking once enough was written") {
    std::string text;
    std::counting_semaphore<> gate{1000};
    std::latch told{1};
    WriterThread writer(std::make_unique<SlowSink>(text, gate), [&] { told.count_down(); });

    writer.push(chunk(std::string(WriterThread::kProgressStep, 'x')));

    told.wait();
    CHECK(writer.pending_bytes() == 0);
}

TEST_CASE("a writer without work has no thread") {
    std::string text;
    std::counting_semaphore<> gate{0};
    WriterThread writer(std::make_unique<SlowSink>(text, gate), [] {});

    CHECK_FALSE(writer.has_started());
    CHECK(writer.is_idle());
}
