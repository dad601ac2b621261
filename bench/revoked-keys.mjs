// Measures what a million ids of revoked keys take: in memory, and in a Redis if one is named.
// node --expose-gc bench/revoked-keys.mjs [redis-cli options]
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { RevokedKeys } from '../dist/callers/keys/revoked-keys.js'

const COUNT = 1_000_000
const keys = new RevokedKeys()
globalThis.gc()
globalThis.gc()
const before = process.memoryUsage()
const startMs = performance.now()
let longestMs = 0
for (let i = 0; i < COUNT; i++) {
  const addedMs = performance.now()
  keys.add(randomBytes(6).toString('hex'))
  longestMs = Math.max(longestMs, performance.now() - addedMs)
}
const tookMs = performance.now() - startMs
globalThis.gc()
globalThis.gc()
const after = process.memoryUsage()
const bytes = after.arrayBuffers + after.heapUsed - before.arrayBuffers - before.heapUsed
console.log(
  `memory: ${keys.size} ids take ${bytes} bytes, ${(bytes / keys.size).toFixed(1)} each; added in ${tookMs.toFixed(0)} ms, the longest ${longestMs.toFixed(1)} ms`,
)

const options = process.argv.slice(2)
if (options.length > 0) {
  const name = 'edge:{keys}:revoked-bench'
  const script =
    "for i = 1, 100000 do local n = string.format('%.0f', math.floor(math.random() * 2 ^ 48)); redis.call('ZADD', KEYS[1], n, string.format('%012x', n)) end return redis.call('MEMORY', 'USAGE', KEYS[1], 'SAMPLES', 0)"
  const used = Number(execFileSync('redis-cli', [...options, 'EVAL', script, '1', name]).toString())
  execFileSync('redis-cli', [...options, 'DEL', name])
  console.log(`Redis: 100000 ids take ${used} bytes, ${(used / 100_000).toFixed(1)} each`)
}
