"""What each command does in Redis: one Lua script, which the server runs as a whole or not at all.

A job is a hash, with the columns that it has in SQLite. Sorted sets hold ids by time: all jobs and those of each owner (created),
those that wait (created), those that are being made (end of the lease), those that have ended (end). All keys share a hash tag.
"""

from __future__ import annotations

from typing import Final

from deployments.video_jobs.redis_webhooks import OPERATIONS, OUTBOX
from deployments.video_jobs.store import KEY_S, MOST_FAILURES, MOST_LOST, MOST_MESSAGES, RETRY_PAUSE_S

_BASIS: Final = """
local P, op, a = KEYS[1], ARGV[2], cjson.decode(ARGV[3])
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = tonumber(t[1]) + tonumber(t[2]) / 1e6
end
local function s(x) return string.format('%.6f', x) end
local function key(id) return P .. 'job:' .. id end
local function get(id, name) return redis.call('HGET', key(id), name) end
local function set(id, ...) redis.call('HSET', key(id), ...) end
local function number(id, name) return tonumber(get(id, name) or '0') end
local function read(id)
  local raw, job = redis.call('HGETALL', key(id)), {}
  for i = 1, #raw, 2 do job[raw[i]] = raw[i + 1] end
  job.id, job.place = id, (redis.call('ZRANK', P .. 'queued', id) or -1) + 1
  return job
end
local function owned()
  local owner = get(a.id, 'owner')
  return owner and (a.any or owner == a.owner)
end
"""
_COMMON: Final = """
local function leave(id)
  redis.call('ZREM', P .. 'queued', id)
  redis.call('ZREM', P .. 'leases', id)
  redis.call('ZREM', P .. 'ended', id)
end
local function finish(id, state)
  leave(id)
  set(id, 'state', state, 'ended_at', s(now))
  redis.call('ZADD', P .. 'ended', s(now), id)
  announce(id, state)
end
local function queue(id, not_before)
  leave(id)
  set(id, 'state', 'queued', 'not_before', s(not_before), 'done', '0', 'total', '0')
  redis.call('ZADD', P .. 'queued', get(id, 'created_at'), id)
end
local function forget(id)
  local owner, k = get(id, 'owner'), get(id, 'idempotency_key')
  if k and redis.call('HGET', P .. 'keys', owner .. '\\n' .. k) == id then
    redis.call('HDEL', P .. 'keys', owner .. '\\n' .. k)
  end
  leave(id)
  forget_messages(id)
  redis.call('ZREM', P .. 'all', id)
  redis.call('ZREM', P .. 'of:' .. owner, id)
  redis.call('DEL', key(id))
end
local function standing()
  local same = get(a.id, 'attempt') == tostring(a.attempt)
  return same and get(a.id, 'state') == 'cancelled' and 'cancelled' or 'lost'
end
local function listed() return a.any and P .. 'all' or P .. 'of:' .. a.owner end
local ops = {}
"""
_INTAKE: Final = f"""
local function check_room(owner)
  local waiting = redis.call('ZCARD', P .. 'queued')
  if a.max_queued > 0 and waiting >= a.max_queued then return {{error = 'full', waiting = waiting}} end
  if a.max_own == 0 or waiting < a.max_own then return end
  local own = 0
  for _, id in ipairs(redis.call('ZRANGE', P .. 'queued', 0, -1)) do
    if get(id, 'owner') == owner then own = own + 1 end
  end
  if own >= a.max_own then return {{error = 'own_full', waiting = own}} end
end
function ops.add()
  if get(a.id, 'state') then return {{job = read(a.id), created = false}} end
  local k = a.owner .. '\\n' .. a.key
  local earlier = a.key ~= '' and redis.call('HGET', P .. 'keys', k)
  if earlier and number(earlier, 'created_at') > now - {KEY_S} then
    if get(earlier, 'fingerprint') ~= a.fingerprint then return {{error = 'mismatch'}} end
    return {{job = read(earlier), created = false}}
  end
  local no_room = check_room(a.owner)
  if no_room then return no_room end
  set(a.id, 'owner', a.owner, 'state', 'queued', 'spec', a.spec, 'metadata', a.metadata, 'keep_s', s(a.keep_s),
    'fingerprint', a.fingerprint, 'created_at', s(now), 'not_before', '0', 'attempt', '0', 'failures', '0', 'lost', '0',
    'done', '0', 'total', '0')
  if a.key ~= '' then
    set(a.id, 'idempotency_key', a.key)
    redis.call('HSET', P .. 'keys', k, a.id)
  end
  for _, name in ipairs({{'all', 'of:' .. a.owner, 'queued'}}) do redis.call('ZADD', P .. name, s(now), a.id) end
  return {{job = read(a.id), created = true}}
end
function ops.retry()
  if not owned() then return {{error = 'unknown'}} end
  local state = get(a.id, 'state')
  if state ~= 'failed' and state ~= 'cancelled' then return {{error = 'state', state = state}} end
  if number(a.id, 'messages') >= {MOST_MESSAGES} then return {{error = 'told'}} end
  local no_room = check_room(get(a.id, 'owner'))
  if no_room then return no_room end
  redis.call('HDEL', key(a.id), 'ended_at', 'failure')
  set(a.id, 'failures', '0', 'lost', '0')
  queue(a.id, now)
  return {{job = read(a.id)}}
end
"""
_WORK: Final = f"""
local function next_waiting()
  local busy, seen, found, least = {{}}, {{}}, nil, nil
  for _, id in ipairs(redis.call('ZRANGE', P .. 'leases', 0, -1)) do
    local owner = get(id, 'owner')
    busy[owner] = (busy[owner] or 0) + 1
  end
  for _, id in ipairs(redis.call('ZRANGE', P .. 'queued', 0, -1)) do
    local state, owner, not_before = unpack(redis.call('HMGET', key(id), 'state', 'owner', 'not_before'))
    if state ~= 'queued' then
      redis.call('ZREM', P .. 'queued', id)
    elseif not seen[owner] and tonumber(not_before or '0') <= now then
      local count = busy[owner] or 0
      if not found or count < least then found, least = id, count end
      if least == 0 then break end
      seen[owner] = true
    end
  end
  return found
end
function ops.claim()
  local found, since, lost
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'leases', '-inf', s(now))) do
    if number(id, 'lost') >= {MOST_LOST} then
      set(id, 'failure', a.failure)
      finish(id, 'failed')
    else
      local at = number(id, 'created_at')
      if not found or at < since or (at == since and id < found) then found, since, lost = id, at, 1 end
    end
  end
  if not found then found, lost = next_waiting(), 0 end
  if not found then return {{}} end
  leave(found)
  redis.call('ZADD', P .. 'leases', s(now + a.lease_s), found)
  redis.call('HINCRBY', key(found), 'attempt', 1)
  redis.call('HINCRBY', key(found), 'lost', lost)
  redis.call('HSETNX', key(found), 'started_at', s(now))
  set(found, 'state', 'running', 'worker', a.worker, 'done', '0', 'total', '0')
  return {{job = read(found)}}
end
function ops.beat()
  if get(a.id, 'state') ~= 'running' or get(a.id, 'attempt') ~= tostring(a.attempt) then
    return {{standing = standing()}}
  end
  redis.call('ZADD', P .. 'leases', s(now + a.lease_s), a.id)
  set(a.id, 'done', tostring(a.done), 'total', tostring(a.total))
  return {{standing = 'held'}}
end
function ops.finish()
  if get(a.id, 'attempt') ~= tostring(a.attempt) then return {{standing = 'lost'}} end
  if get(a.id, 'state') ~= 'running' then
    local repeated = a.result and get(a.id, 'result') == a.result
    return {{standing = repeated and 'held' or standing()}}
  end
  if a.result then
    set(a.id, 'result', a.result, 'expires_at', s(a.expires_at), 'done', get(a.id, 'total'))
    finish(a.id, 'completed')
  elseif a.failure then
    local failures = redis.call('HINCRBY', key(a.id), 'failures', 1)
    if a.again and failures < {MOST_FAILURES} then
      queue(a.id, now + {RETRY_PAUSE_S})
    else
      set(a.id, 'failure', a.failure)
      finish(a.id, 'failed')
    end
  else
    queue(a.id, now)
  end
  return {{standing = 'held'}}
end
function ops.queue()
  local oldest = redis.call('ZRANGE', P .. 'queued', 0, 0, 'WITHSCORES')[2]
  return {{
    waiting = redis.call('ZCARD', P .. 'queued'), waiting_s = oldest and math.max(0, now - tonumber(oldest)) or 0,
    running = redis.call('ZCARD', P .. 'leases'), messages = redis.call('ZCARD', P .. 'messages'),
  }}
end
function ops.ready()
  local count = redis.call('ZCOUNT', P .. 'leases', '-inf', s(now))
  for _, id in ipairs(redis.call('ZRANGE', P .. 'queued', 0, -1)) do
    if number(id, 'not_before') <= now then count = count + 1 end
  end
  return {{count = count}}
end
"""
_REST: Final = """
function ops.get()
  if not owned() then return {error = 'unknown'} end
  return {job = read(a.id)}
end
function ops.cancel()
  if not owned() then return {error = 'unknown'} end
  local state = get(a.id, 'state')
  if state ~= 'queued' and state ~= 'running' then return {error = 'state', state = state} end
  finish(a.id, 'cancelled')
  return {job = read(a.id)}
end
function ops.delete()
  if not owned() then return {error = 'unknown'} end
  local job = read(a.id)
  forget(a.id)
  return {job = job}
end
function ops.page()
  local name, first = listed(), 0
  if a.after ~= '' then
    local rank = redis.call(a.newest and 'ZREVRANK' or 'ZRANK', name, a.after)
    if not rank then return {error = 'unknown'} end
    first = rank + 1
  end
  local jobs = {}
  for i, id in ipairs(redis.call(a.newest and 'ZREVRANGE' or 'ZRANGE', name, first, first + a.limit)) do
    jobs[i] = read(id)
  end
  return {jobs = jobs}
end
function ops.count()
  local counts = {}
  for _, id in ipairs(redis.call('ZRANGE', listed(), 0, -1)) do
    local state = get(id, 'state')
    counts[state] = (counts[state] or 0) + 1
  end
  return {counts = counts}
end
function ops.find_failed()
  local ids = {}
  for _, id in ipairs(a.among) do
    local state = get(id, 'state')
    if state == 'failed' or state == 'cancelled' then ids[#ids + 1] = id end
  end
  table.sort(ids, function(x, y)
    local first, second = number(x, 'ended_at'), number(y, 'ended_at')
    return first < second or (first == second and x < y)
  end)
  return {ids = ids}
end
function ops.purge()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'ended', '-inf', s(now - a.keep_s))) do
    if number(id, 'expires_at') <= now and not has_waiting_message(id) then forget(id) end
  end
  local spare = {}
  for _, id in ipairs(a.uploads) do
    local state = get(id, 'state')
    if not state or state == 'completed' then spare[#spare + 1] = id end
  end
  return {spare = spare}
end
return cjson.encode(ops[op]())
"""
SCRIPT: Final = _BASIS + OUTBOX + _COMMON + _INTAKE + _WORK + OPERATIONS + _REST
