-- wrk script: goes round a list of prepared requests and reports the distribution as JSON.
--   wrk -t1 -c1 -d5s -s requests.lua URL -- FILE
-- FILE has one request a line: METHOD tab TARGET tab HEADER:VALUE|HEADER:VALUE tab BODY
local requests, at = {}, 0

function init(arguments)
  for line in io.lines(arguments[1]) do
    local method, target, headers, body = line:match("^(%u+)\t([^\t]*)\t([^\t]*)\t(.*)$")
    local fields = {}
    for field in headers:gmatch("[^|]+") do
      local name, value = field:match("^([^:]+):(.*)$")
      fields[name] = value
    end
    requests[#requests + 1] = wrk.format(method, target, fields, body ~= "" and body or nil)
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    'JSON{"requests":%d,"us":%d,"p50":%d,"p99":%d,"max":%d,"mean":%.1f,"errors":%d,"bytes":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    latency.max, latency.mean,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout, summary.bytes))
end
