// SPDX-License-Identifier: BSD-3-Clause
#include "http_answer.h"

#include "os/format.h"

#include <algorithm>
#include <string_view>

namespace gaudi::cli::top {
namespace {

std::string make_answer(const char *status, const char *type, const std::string &body, bool head,
                        const char *further = "") {
    return os::format("HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n{}", status,
                      type, body.size(), further, head ? std::string() : body);
}

std::string make_refusal(const char *status, const char *further = "", bool head = false) {
    return make_answer(status, "text/plain; charset=utf-8", os::format("{}\n", status), head, further);
}

} // namespace

std::string answer_request(const std::string &request, const MetricsPage &make_page) {
    std::string_view line(request.data(), std::min(request.find_first_of("\r\n"), request.size()));
    const std::size_t first = line.find(' '), last = line.rfind(' ');
    if (first == std::string_view::npos || last == first || !line.substr(last + 1).starts_with("HTTP/1.") ||
        line.substr(first + 1, last - first - 1).find(' ') != std::string_view::npos)
        return make_refusal("400 Bad Request");
    const std::string_view method = line.substr(0, first);
    std::string_view target = line.substr(first + 1, last - first - 1);
    if (method != "GET" && method != "HEAD")
        return make_refusal("405 Method Not Allowed", "Allow: GET, HEAD\r\n");
    const bool head = method == "HEAD";
    target = target.substr(0, target.find('?'));
    if (target == "/")
        return make_answer("200 OK", "text/plain; charset=utf-8", "ucx_gaudi metrics: see /metrics\n", head);
    if (target != "/metrics")
        return make_refusal("404 Not Found", "", head);
    const auto page = make_page();
    if (!page)
        return make_answer("500 Internal Server Error", "text/plain; charset=utf-8", page.error() + "\n", head);
    return make_answer("200 OK", "text/plain; version=0.0.4; charset=utf-8", *page, head);
}

std::string refuse_long_request() { return make_refusal("431 Request Header Fields Too Large"); }

} // namespace gaudi::cli::top
