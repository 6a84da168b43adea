// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/fallback_transport.hpp"

#include <chrono>
#include <utility>

namespace hvd::launch::ssh {

FallbackTransport::FallbackTransport(
    IoThread& io,
    std::unique_ptr<Transport> first,
    std::function<std::unique_ptr<Transport>(const std::string&)> make_second)
    : soon_(io), make_second_(std::move(make_second)), current_(std::move(first)) {}

FallbackTransport::~FallbackTransport() = default;

void FallbackTransport::open(Handlers handlers) {
    handlers_ = std::move(handlers);
    current_->open(
        {.on_linked =
             [this] {
                 is_linked_ = true;
                 handlers_.on_linked();
             },
         .on_bytes = [this](std::span<const std::byte> bytes) { handlers_.on_bytes(bytes); },
         .on_end =
             [this](std::optional<Error> error) {
                 if (is_linked_ || !error || error->code != Errc::unsupported) {
                     handlers_.on_end(std::move(error));
                     return;
                 }
                 soon_.set(Deadline::in(std::chrono::milliseconds(0)),
                           [this, reason = std::move(error)->message] {
                               current_ = make_second_(reason);
                               current_->open(handlers_);
                           });
             }});
}

}  // namespace hvd::launch::ssh
