// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/name_lookup.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>

namespace hvd::launch::ssh {
namespace {

template <class T>
Address make_address(const T& value, std::string_view text) {
    Address address{.storage = {}, .size = sizeof value, .text = std::string(text)};
    std::memcpy(&address.storage, &value, sizeof value);
    return address;
}

}  // namespace

std::optional<Address> parse_address(std::string_view text, int port) {
    const auto network_port = htons(static_cast<std::uint16_t>(port));
    sockaddr_in v4{};
    if (::inet_pton(AF_INET, std::string(text).c_str(), &v4.sin_addr) == 1) {
        v4.sin_family = AF_INET;
        v4.sin_port = network_port;
        return make_address(v4, text);
    }
    const auto percent = text.find('%');
    sockaddr_in6 v6{};
    if (::inet_pton(AF_INET6, std::string(text.substr(0, percent)).c_str(), &v6.sin6_addr) != 1) {
        return std::nullopt;
    }
    v6.sin6_family = AF_INET6;
    v6.sin6_port = network_port;
    if (percent != std::string_view::npos) {
        const std::string scope(text.substr(percent + 1));
        v6.sin6_scope_id =
            parse_number<std::uint32_t>(scope).value_or(::if_nametoindex(scope.c_str()));
    }
    return make_address(v6, text);
}

std::vector<Address> parse_getent(std::string_view output, int port, std::optional<int> family) {
    std::vector<Address> addresses;
    for (const auto line : split(output, '\n')) {
        const auto text = line.substr(0, line.find_first_of(" \t"));
        auto address = parse_address(text, port);
        const auto is_same = [&](const Address& other) { return other.text == text; };
        if (address && (!family || address->storage.ss_family == *family) &&
            std::ranges::none_of(addresses, is_same)) {
            addresses.push_back(*std::move(address));
        }
    }
    return addresses;
}

NameLookup::NameLookup(IoThread& io, const std::string& name, const sigset_t& signal_mask)
    : name_(name), getent_(io, {"getent", "ahosts", name}, signal_mask) {}

void NameLookup::start(std::function<void(Result<std::string>)> done) {
    getent_.open({.on_linked = [] {},
                  .on_bytes =
                      [this](std::span<const std::byte> bytes) {
                          output_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                      },
                  .on_end =
                      [this, call = std::move(done)](const std::optional<Error>& error) {
                          if (!error) {
                              call(output_);
                              return;
                          }
                          constexpr std::string_view kUnknown = "status 2";
                          const bool is_unknown =
                              error->message.find(kUnknown) != std::string::npos;
                          call(Error{Errc::unavailable,
                                     is_unknown ? "the name " + name_ +
                                                      " does not resolve (`getent ahosts " + name_ +
                                                      "` finds nothing); correct it, or add it to "
                                                      "/etc/hosts or ~/.ssh/config"
                                                : error->message});
                      }});
}

}  // namespace hvd::launch::ssh
