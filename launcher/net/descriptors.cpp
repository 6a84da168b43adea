// SPDX-License-Identifier: Apache-2.0
#include "launcher/net/descriptors.hpp"

#include "launcher/net/asio.hpp"
#include "launcher/net/io_thread.hpp"

#include <deque>
#include <utility>

namespace hvd::launch {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// As large as the pipes from the agents are made: one read takes all that is there.
constexpr std::size_t kReadBuffer = std::size_t{256} << 10;

}  // namespace

// ---- PipeReader ----

struct PipeReader::State : std::enable_shared_from_this<State> {
    State(asio::io_context& context, int fd)
        : pipe(context, fd), buffer(new std::byte[kReadBuffer]) {}

    void read() {
        pipe.async_read_some(
            asio::buffer(buffer.get(), kReadBuffer),
            [self = shared_from_this()](const error_code& error, std::size_t size) {
                self->finished(error, size);
            });
    }

    void finished(const error_code& error, std::size_t size) {
        if (closed) {
            return;
        }
        if (error) {
            const bool end = error == asio::error::eof;
            handlers.on_end(end ? std::nullopt
                                : std::optional(system_error("read", error.value())));
            return;
        }
        handlers.on_bytes({buffer.get(), size});
        if (!closed) {
            read();
        }
    }

    asio::posix::stream_descriptor pipe;
    // Not zeroed, on purpose.
    std::unique_ptr<std::byte[]> buffer;  // NOLINT(modernize-avoid-c-arrays)
    Handlers handlers;
    bool closed = false;
};

PipeReader::PipeReader(IoThread& io, UniqueFd fd)
    : state_(std::make_shared<State>(io.context(), fd.release())) {
    state_->pipe.non_blocking(true);
}

PipeReader::~PipeReader() {
    state_->closed = true;
    state_->pipe.close();
}

void PipeReader::start(Handlers handlers) {
    state_->handlers = std::move(handlers);
    state_->read();
}

// ---- PipeWriter ----

struct PipeWriter::State : std::enable_shared_from_this<State> {
    State(asio::io_context& context, int fd) : pipe(context, fd) {}

    void write() {
        asio::async_write(
            pipe, asio::buffer(queue.front()),
            [self = shared_from_this()](const error_code& error, std::size_t /*size*/) {
                self->finished(error);
            });
    }

    void finished(const error_code& error) {
        if (error) {
            close();
            return;
        }
        queue.pop_front();
        if (!queue.empty()) {
            write();
            return;
        }
        report_sent();
    }

    void report_sent() {
        for (const auto& call : std::exchange(sent, {})) {
            call();
        }
    }

    void close() {
        if (pipe.is_open()) {
            pipe.close();
        }
        report_sent();
    }

    asio::posix::stream_descriptor pipe;
    std::deque<std::vector<std::byte>> queue;
    std::vector<std::function<void()>> sent;
};

PipeWriter::PipeWriter(IoThread& io, UniqueFd fd)
    : state_(std::make_shared<State>(io.context(), fd.release())) {
    state_->pipe.non_blocking(true);
}

PipeWriter::~PipeWriter() {
    state_->sent.clear();
    state_->close();
}

void PipeWriter::send(std::vector<std::byte> bytes) {
    if (!state_->pipe.is_open() || bytes.empty()) {
        return;
    }
    state_->queue.push_back(std::move(bytes));
    if (state_->queue.size() == 1) {
        state_->write();
    }
}

void PipeWriter::when_sent(std::function<void()> sent) {
    if (state_->queue.empty() || !state_->pipe.is_open()) {
        sent();
        return;
    }
    state_->sent.push_back(std::move(sent));
}

void PipeWriter::close() {
    state_->close();
}

// ---- ReadableWatch ----

struct ReadableWatch::State {
    State(asio::io_context& context, int fd) : descriptor(context, fd) {}

    asio::posix::stream_descriptor descriptor;
    bool closed = false;
};

ReadableWatch::ReadableWatch(IoThread& io, UniqueFd fd)
    : state_(std::make_shared<State>(io.context(), fd.release())) {}

ReadableWatch::~ReadableWatch() {
    state_->closed = true;
    state_->descriptor.close();
}

void ReadableWatch::wait(std::function<void()> readable) {
    state_->descriptor.async_wait(
        asio::posix::stream_descriptor::wait_read,
        [state = state_, call = std::move(readable)](const error_code& error) {
            if (!state->closed && !error) {
                call();
            }
        });
}

int ReadableWatch::fd() const noexcept {
    return state_->descriptor.native_handle();
}

}  // namespace hvd::launch
