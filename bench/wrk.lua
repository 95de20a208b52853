-- What wrk asks, by WRK_ASK: a plain GET whose query has a random key, a proxy's question about a random client, a
-- check, or an admission of such a client. Requests are written once and taken in turn: making them must not be what
-- is measured.
local ask, keys = os.getenv("WRK_ASK"), tonumber(os.getenv("WRK_KEYS"))
local requests, turn, COUNT = {}, 0, 20000

local function get(key)
  return wrk.format("GET", "/?k=key" .. key)
end

local function forward(key)
  return wrk.format("GET", "/v1/auth/forward", {
    ["X-Forwarded-For"] = string.format("10.%d.%d.%d", key / 65536 % 256, key / 256 % 256, key % 256),
    ["X-Forwarded-Method"] = "GET", ["X-Forwarded-Uri"] = "/search?q=1", ["X-Forwarded-Host"] = "example.com"})
end

local function check(key)
  return wrk.format("POST", "/v1/check", {["Content-Type"] = "application/json"},
    string.format('{"key":"rl:user:%012d","limits":["100/60s"]}', key))
end

local function admit(key)
  return wrk.format("POST", "/v1/admit", {["Content-Type"] = "application/json"},
    string.format('{"attributes":{"ip":"10.%d.%d.%d","method":"GET","path":"/search"}}', key / 65536 % 256,
      key / 256 % 256, key % 256))
end

function init()
  math.randomseed(tonumber(os.getenv("WRK_SEED")))
  for i = 1, COUNT do
    local key = math.random(0, keys - 1)
    requests[i] = ask == "get" and get(key) or ask == "forward" and forward(key) or ask == "admit" and admit(key)
      or check(key)
  end
end

function request()
  turn = turn % COUNT + 1
  return requests[turn]
end

function done(summary, latency)
  io.write(string.format("RESULT %d %d %.1f %.1f %.1f %d %d\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9), summary.errors.status,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout))
end
