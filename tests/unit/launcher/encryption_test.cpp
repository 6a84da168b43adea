// SPDX-License-Identifier: Apache-2.0
#include "launcher/wire/encryption.hpp"

#include "launcher/wire/join.hpp"
#include "launcher/wire/token_file.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

using namespace hvd::launch::wire;  // NOLINT(google-build-using-namespace): the tested one
using hvd::Errc;

namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

std::string text_of(const Bytes& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void append(Bytes& bytes, const Bytes& more) {
    bytes.insert(bytes.end(), more.begin(), more.end());
}

Key key_of(char digit) {
    return *join_key(std::string(64, digit));
}

JoinNonce nonce_of(unsigned char value) {
    JoinNonce nonce{};
    nonce.fill(std::byte{value});
    return nonce;
}

struct Ends {
    JoinHandshake listener;
    JoinHandshake joiner;
};

Ends make_ends(char listeners_token = 'a', char joiners_token = 'a') {
    return {.listener = JoinHandshake::listening(key_of(listeners_token), nonce_of(1)),
            .joiner = JoinHandshake::joining(key_of(joiners_token), nonce_of(2))};
}

/// All three messages. The first error of either end, or none.
hvd::Status shake(Ends& ends) {
    HVD_TRY_STATUS(ends.joiner.feed(ends.listener.take_output()));
    HVD_TRY_STATUS(ends.listener.feed(ends.joiner.take_output()));
    return ends.joiner.feed(ends.listener.take_output());
}

}  // namespace

TEST_CASE("the other end decrypts what was encrypted, however it is cut") {
    Encryptor encryptor(key_of('k'));
    auto sent = encryptor.encrypt(bytes_of("head "), bytes_of("and tail"));
    append(sent, encryptor.encrypt(bytes_of("!")));
    append(sent, encryptor.finish());
    CHECK(text_of(sent).find("head") == std::string::npos);

    for (std::size_t cut = 0; cut <= sent.size(); ++cut) {
        Decryptor decryptor(key_of('k'));
        const auto first = decryptor.decrypt(std::span(sent).first(cut));
        const auto second = decryptor.decrypt(std::span(sent).subspan(cut));
        REQUIRE(first);
        REQUIRE(second);
        CHECK(text_of(*first) + text_of(*second) == "head and tail!");
        CHECK(decryptor.has_ended());
    }
}

TEST_CASE("a reader that takes the bytes needed takes no byte of the next record") {
    Encryptor encryptor(key_of('k'));
    const auto sent = encryptor.encrypt(bytes_of("text"));
    Decryptor decryptor(key_of('k'));
    std::span<const std::byte> rest(sent);
    std::string text;
    while (text.empty()) {
        REQUIRE(decryptor.needed() > 0);
        REQUIRE(decryptor.needed() <= rest.size());
        const auto taken = decryptor.needed();
        text = text_of(*decryptor.decrypt(rest.first(taken)));
        rest = rest.subspan(taken);
    }
    CHECK(text == "text");
    CHECK(rest.empty());
}

TEST_CASE("more than a record holds is sent in several") {
    const Bytes first(kMaxRecord - 3, std::byte{1});
    const Bytes second(2 * kMaxRecord, std::byte{2});
    Encryptor encryptor(key_of('k'));
    Decryptor decryptor(key_of('k'));

    const auto plain = decryptor.decrypt(encryptor.encrypt(first, second));

    REQUIRE(plain);
    CHECK(plain->size() == first.size() + second.size());
    CHECK(std::equal(first.begin(), first.end(), plain->begin()));
    CHECK(std::equal(second.begin(), second.end(),
                     plain->begin() + static_cast<std::ptrdiff_t>(first.size())));
    CHECK(encryptor.encrypt({}).empty());
}

TEST_CASE("a stream that was changed anywhere does not decrypt") {
    const auto sent = Encryptor(key_of('k')).encrypt(bytes_of("text"));
    for (std::size_t position = 0; position < sent.size(); ++position) {
        auto changed = sent;
        changed[position] ^= std::byte{0x10};
        Decryptor decryptor(key_of('k'));
        const auto plain = decryptor.decrypt(changed);
        // A length that grew waits for bytes that never come.
        CHECK((!plain || (plain->empty() && !decryptor.has_ended())));
    }
}

TEST_CASE("records that were repeated, swapped or left out do not decrypt") {
    Encryptor encryptor(key_of('k'));
    const auto header = encryptor.encrypt(bytes_of("0"));
    const auto first = encryptor.encrypt(bytes_of("1"));
    const auto second = encryptor.encrypt(bytes_of("2"));
    const auto last = encryptor.finish();
    const auto decrypts = [&header](std::initializer_list<Bytes> records) {
        Decryptor decryptor(key_of('k'));
        REQUIRE(decryptor.decrypt(header));
        return std::ranges::all_of(
            records, [&](const Bytes& record) { return decryptor.decrypt(record).has_value(); });
    };
    CHECK(decrypts({first, second, last}));
    CHECK_FALSE(decrypts({first, first}));
    CHECK_FALSE(decrypts({second, first}));
    CHECK_FALSE(decrypts({second}));
    CHECK_FALSE(decrypts({first, last}));
    CHECK_FALSE(decrypts({first, second, last, first}));
}

TEST_CASE("a stream that is cut has not ended, also between two records") {
    Encryptor encryptor(key_of('k'));
    const auto sent = encryptor.encrypt(bytes_of("text"));
    const auto last = encryptor.finish();
    for (std::size_t cut = 0; cut <= sent.size(); ++cut) {
        Decryptor decryptor(key_of('k'));
        REQUIRE(decryptor.decrypt(std::span(sent).first(cut)));
        CHECK_FALSE(decryptor.has_ended());
    }
    Decryptor decryptor(key_of('k'));
    REQUIRE(decryptor.decrypt(sent));
    REQUIRE(decryptor.decrypt(last));
    CHECK(decryptor.has_ended());
    CHECK(encryptor.finish().empty());
}

TEST_CASE("impossible lengths are refused before they are waited for") {
    for (const std::uint32_t length : {static_cast<std::uint32_t>(kMaxRecord + 1), ~0U}) {
        Decryptor decryptor(key_of('k'));
        REQUIRE(decryptor.decrypt(Bytes(decryptor.needed())));
        const auto plain = decryptor.decrypt(std::as_bytes(std::span(&length, 1)));
        REQUIRE_FALSE(plain);
        CHECK(plain.error().code == Errc::invalid_argument);
    }
}

TEST_CASE("who knows the token is let in, and each direction has its own key") {
    auto ends = make_ends();
    REQUIRE(shake(ends));
    REQUIRE(ends.listener.is_done());
    REQUIRE(ends.joiner.is_done());
    const auto keys = ends.listener.keys();
    CHECK(keys.to_agent == ends.joiner.keys().to_agent);
    CHECK(keys.to_launcher == ends.joiner.keys().to_launcher);
    CHECK(keys.to_agent != keys.to_launcher);

    auto launcher = ends.listener.encryption();
    auto agent = ends.joiner.encryption();
    const auto down = launcher.encryptor.encrypt(bytes_of("down"));
    CHECK(text_of(*agent.decryptor.decrypt(down)) == "down");
    CHECK_FALSE(launcher.decryptor.decrypt(down));  // sent back to its sender
}

TEST_CASE("every connection has keys of its own") {
    auto first = make_ends();
    Ends second{.listener = JoinHandshake::listening(key_of('a'), nonce_of(3)),
                .joiner = JoinHandshake::joining(key_of('a'), nonce_of(2))};
    REQUIRE(shake(first));
    REQUIRE(shake(second));
    CHECK(first.listener.keys().to_agent != second.listener.keys().to_agent);
    CHECK(first.listener.keys().to_launcher != second.listener.keys().to_launcher);
}

TEST_CASE("another token is refused at both ends") {
    auto ends = make_ends('a', 'b');
    REQUIRE(ends.joiner.feed(ends.listener.take_output()));
    const auto listener = ends.listener.feed(ends.joiner.take_output());
    REQUIRE_FALSE(listener);
    CHECK(listener.error().message == "it has another token");
    const auto joiner = ends.joiner.feed(ends.listener.take_output());
    REQUIRE_FALSE(joiner);
    CHECK(joiner.error().message == "horovodrun there has another token");
    CHECK_FALSE(ends.listener.is_done());
    CHECK_FALSE(ends.joiner.is_done());
}

TEST_CASE("a launcher that only claims to accept is found out") {
    auto ends = make_ends();
    REQUIRE(ends.joiner.feed(ends.listener.take_output()));
    (void)ends.joiner.take_output();
    Bytes claim(33);
    claim[0] = std::byte{1};
    const auto joiner = ends.joiner.feed(claim);
    REQUIRE_FALSE(joiner);
    CHECK(joiner.error().message.find("does not know the token") != std::string::npos);
}

TEST_CASE("the proof of one connection is worth nothing in another") {
    auto heard = make_ends();
    REQUIRE(heard.joiner.feed(heard.listener.take_output()));
    const auto proof = heard.joiner.take_output();
    auto other = JoinHandshake::listening(key_of('a'), nonce_of(9));
    (void)other.take_output();
    CHECK_FALSE(other.feed(proof));
}

TEST_CASE("garbage is refused at its first byte") {
    auto ends = make_ends();
    CHECK_FALSE(ends.listener.feed(bytes_of("G")));
    CHECK_FALSE(ends.joiner.feed(bytes_of("S")));
}

TEST_CASE("another version of joining is told from another program") {
    auto ends = make_ends();
    const auto fed = ends.listener.feed(bytes_of("HVDJOIN7"));
    REQUIRE_FALSE(fed);
    CHECK(fed.error().code == Errc::unsupported);
    CHECK(fed.error().message.find("version '7'") != std::string::npos);
}

TEST_CASE("blanks around a token do not count, and a short one is refused") {
    const auto token = make_join_token();
    CHECK(token.size() == 64);
    CHECK(token != make_join_token());
    CHECK(*join_key(token) == *join_key(" " + token + "\r\n"));
    const auto small = join_key("secret\n");
    REQUIRE_FALSE(small);
    CHECK(small.error().message.find("6 characters") != std::string::npos);
}

TEST_CASE("a token file counts where nobody but its reader and root can write it") {
    struct Example {
        mode_t mode;
        uid_t owner;
        uid_t reader;
        bool is_trusted;
    };
    const auto& example = GENERATE(values<Example>({
        {S_IFREG | 0600, 1000, 1000, true},
        {S_IFREG | 0644, 0, 1000, true},  // a secret of Kubernetes
        {S_IFREG | 0600, 1000, 0, true},
        {S_IFREG | 0644, 1001, 1000, false},
        {S_IFREG | 0666, 1000, 1000, false},
        {S_IFREG | 0602, 0, 0, false},
        {S_IFIFO | 0666, 1001, 1000, true},
    }));
    CAPTURE(example.mode, example.owner, example.reader);
    struct stat file {};
    file.st_mode = example.mode;
    file.st_uid = example.owner;
    CHECK(check_token_file(file, example.reader).has_value() == example.is_trusted);
}

TEST_CASE("first messages arrive as they were sent, in pieces too") {
    const Introduction introduction{
        .build_id = "1+a", .name = "node1", .hostname = "node1.example", .slots = 4};
    const auto sent = encode(introduction);
    Bytes plain;
    for (const auto byte : sent) {
        CHECK_FALSE(*take_introduction(plain));
        plain.push_back(byte);
    }
    plain.push_back(std::byte{7});
    CHECK(**take_introduction(plain) == introduction);
    CHECK(plain == Bytes{std::byte{7}});

    auto answer = encode(JoinAnswer{.error = "no"});
    CHECK((*take_join_answer(answer))->error == "no");
}

TEST_CASE("first messages that announce too much or hold too little are refused") {
    Bytes large(4, std::byte{0xff});
    CHECK_FALSE(take_introduction(large));
    Bytes hollow{std::byte{1}, std::byte{}, std::byte{}, std::byte{}, std::byte{}};
    CHECK_FALSE(take_introduction(hollow));
}
