/**
 * A million issued keys: how much memory they take, how long a worker needs to find one, and how long a start from the journal takes.
 * Usage: node bench/keys.mjs [KEYS], after npm run build.
 */
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keyDigest, keyIdOf, newKeyText } from '../dist/callers/keys/issued-key.js'
import { IssuedKeys } from '../dist/callers/keys/issued-keys.js'
import { KeyJournal } from '../dist/callers/keys/key-journal.js'
import { newKeyMemory } from '../dist/callers/keys/key-memory.js'
import { KeyTable } from '../dist/callers/keys/key-table.js'
import { inSlices } from '../dist/time/slices.js'

const COUNT = Number(process.argv[2] ?? 1_000_000)
const BATCH = 500
const FINDS = 1_000_000
const NOW_MS = Date.now()
const PARTS = process.argv[3] ?? 'write'

const folder = process.argv[4] ?? mkdtempSync(join(tmpdir(), 'edge-keys-'))
const path = join(folder, 'keys')
const mib = (bytes) => `${(bytes / 1024 / 1024).toFixed(0)} MiB`

/** Measures how long other work has to wait for its turn. */
function newTurns() {
  let [lastMs, longestMs] = [performance.now(), 0]
  const note = () => {
    const nowMs = performance.now()
    longestMs = Math.max(longestMs, nowMs - lastMs)
    lastMs = nowMs
    next = setImmediate(note)
  }
  let next = setImmediate(note)
  return {
    longestMs() {
      clearImmediate(next)
      return longestMs
    },
  }
}

function newTable() {
  const memory = newKeyMemory(COUNT)
  return { memory, table: new KeyTable(memory) }
}

if (PARTS === 'write') {
  const { table } = newTable()
  const journal = await KeyJournal.open(path, { expect() {}, note() {}, noteSynced() {} })
  const at = performance.now()
  for (let i = 0; i < COUNT; i += BATCH) {
    const keys = Array.from({ length: Math.min(BATCH, COUNT - i) }, (_, j) => {
      const digest = keyDigest(i + j < 1000 ? `edge_${String(i + j).padStart(43, '0')}` : newKeyText())
      const labels = { team: `team-${(i + j) % 1000}`, user: `user-${i + j}` }
      const common = { createdMs: NOW_MS, actor: 'bench', reason: 'a million keys', momentMs: NOW_MS, edit: undefined, isRevoked: false }
      return { id: keyIdOf(digest), digest, labels, expiresMs: undefined, ...common }
    })
    await journal.append(keys, table)
    for (const key of keys) if (!table.put(key)) throw new Error('full')
  }
  const tookS = (performance.now() - at) / 1000
  await journal.close()
  console.log(
    `issued ${COUNT} keys in ${tookS.toFixed(1)} s (${Math.round(COUNT / tookS)}/s in batches of ${BATCH}, each synced), file ${mib(statSync(path).size)}`,
  )
  const { execFileSync } = await import('node:child_process')
  process.stdout.write(execFileSync(process.execPath, ['--expose-gc', import.meta.filename, String(COUNT), 'read', folder]))
  rmSync(folder, { recursive: true })
} else {
  globalThis.gc()
  const emptyBytes = process.memoryUsage.rss()
  const { memory, table } = newTable()
  const at = performance.now()
  const usage = process.cpuUsage()
  const turns = newTurns()
  const journal = await KeyJournal.open(path, {
    expect: (keys) => table.reserve(keys),
    note: (key) => void table.put(key),
    noteSynced() {},
  })
  await inSlices(table.forgetOver(NOW_MS))
  table.noteLoaded()
  const { user, system } = process.cpuUsage(usage)
  const cpuS = (user + system) / 1e6
  console.log(
    `start from the journal: ${((performance.now() - at) / 1000).toFixed(1)} s, ${cpuS.toFixed(1)} s of CPU time, longest turn ${turns.longestMs().toFixed(0)} ms`,
  )
  const pageAt = performance.now()
  table.page({ team: 'team-7' }, undefined, 100, 50_000)
  const firstMs = performance.now() - pageAt
  const nextAt = performance.now()
  table.page({ team: 'team-7' }, undefined, 100, 50_000)
  console.log(`first page of a list: ${firstMs.toFixed(0)} ms, the next: ${(performance.now() - nextAt).toFixed(0)} ms`)
  globalThis.gc()
  const rss = process.memoryUsage.rss()
  console.log(`${table.size} keys: process ${mib(rss)}, of it ${mib(emptyBytes)} without keys`)
  const keys = new IssuedKeys(memory)
  const known = Array.from({ length: 1000 }, (_, i) => `edge_${String(i).padStart(43, '0')}`)
  const unknown = Array.from({ length: 1000 }, () => newKeyText())
  for (const [name, texts] of [
    ['known', known],
    ['unknown', unknown],
  ]) {
    for (let i = 0; i < FINDS / 10; i++) keys.find(texts[i % 1000], () => '192.0.2.1', 0, NOW_MS)
    const began = performance.now()
    for (let i = 0; i < FINDS; i++) keys.find(texts[i % 1000], () => '192.0.2.1', 0, NOW_MS)
    console.log(`find, ${name} keys: ${Math.round(((performance.now() - began) / FINDS) * 1e6)} ns`)
  }
  await journal.close()
}
