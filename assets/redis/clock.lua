-- The server's own clock, in milliseconds: all instances go by it.
local time = redis.call('TIME')
local wall = time[1] * 1000 + time[2] / 1000
local now = wall
