// SPDX-License-Identifier: Apache-2.0
#include "launcher/net/ready_watch.hpp"

#include "launcher/net/asio.hpp"
#include "launcher/net/io_thread.hpp"

#include <utility>

namespace hvd::launch {

using boost::asio::posix::stream_descriptor;

struct ReadyWatch::State : std::enable_shared_from_this<State> {
    State(boost::asio::io_context& context, int fd) : descriptor(context, fd) {}

    void wait(stream_descriptor::wait_type type,
              bool State::*waiting,
              std::function<void()> ready) {
        if (std::exchange(this->*waiting, true)) {
            return;
        }
        descriptor.async_wait(type, [self = shared_from_this(), waiting, call = std::move(ready)](
                                        const boost::system::error_code& /*unused*/) {
            (*self).*waiting = false;
            if (!self->closed) {
                call();
            }
        });
    }

    stream_descriptor descriptor;
    bool reading = false;
    bool writing = false;
    bool closed = false;
};

ReadyWatch::ReadyWatch(IoThread& io, UniqueFd fd)
    : state_(std::make_shared<State>(io.context(), fd.release())) {
    state_->descriptor.non_blocking(true);
}

ReadyWatch::~ReadyWatch() {
    state_->closed = true;
    state_->descriptor.close();
}

void ReadyWatch::wait_readable(std::function<void()> ready) {
    state_->wait(stream_descriptor::wait_read, &State::reading, std::move(ready));
}

void ReadyWatch::wait_writable(std::function<void()> ready) {
    state_->wait(stream_descriptor::wait_write, &State::writing, std::move(ready));
}

int ReadyWatch::fd() const noexcept {
    return state_->descriptor.native_handle();
}

}  // namespace hvd::launch
