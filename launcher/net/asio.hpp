// SPDX-License-Identifier: Apache-2.0
//
// The only file that includes Boost.Asio. Included by .cpp files alone, so that Asio shows in no
// header that another folder reads.
#pragma once

// IWYU pragma: begin_exports
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
// IWYU pragma: end_exports
