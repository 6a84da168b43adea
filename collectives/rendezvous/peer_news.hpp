// SPDX-License-Identifier: Apache-2.0
//
// What somebody who watches the processes tells a rank about its peers. Connections do not show
// everything: a cable that is pulled says nothing, and a child that a rank forked may hold its
// sockets open.
#pragma once

#include "collectives/base/result.hpp"

#include <optional>
#include <string>

namespace hvd::coll {

struct PeerLoss {
    int rank = 0;
    std::string why;  // a sentence that names rank and host

    friend bool operator==(const PeerLoss&, const PeerLoss&) = default;
};

/// Thread: baton.
class PeerNews {
public:
    virtual ~PeerNews() = default;
    PeerNews(const PeerNews&) = delete;
    PeerNews& operator=(const PeerNews&) = delete;

    /// Readable when there may be news.
    [[nodiscard]] virtual int news_descriptor() const noexcept = 0;

    /// The next rank that is gone, or nothing now. Never blocks. Errors: nothing more will come.
    [[nodiscard]] virtual Result<std::optional<PeerLoss>> next_loss() = 0;

protected:
    PeerNews() = default;
};

}  // namespace hvd::coll
