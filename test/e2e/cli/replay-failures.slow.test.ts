import { spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { ALL as BUNDLE, FIVE_REQUESTS, readInPart } from '../../support/replay/hardly-requests.ts'
import { LOG_WRITERS, type Logged } from '../../support/replay/log-writers.ts'
import { REST } from '../../support/replay/replayed-logs.ts'
import { replayed, replaying, writeFiles } from '../../support/replay/replaying.ts'
import { scratchDirectory } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const ENTRY = fileURLToPath(new URL('../../../program/edge.js', import.meta.url))

describe('a compressed log that is hardly requests is read in part', () => {
  test.each<[what: string, repeated: string, count: number]>([
    ['line ends', '\n', 24 * 1024 ** 2],
    ['lines of spaces', ' \r\n', 8 * 1024 ** 2],
    ['lines that might be JSON', '{\n', 400_000],
  ])('%s', async (_, repeated, count) => {
    expect((await readInPart(repeated, count)).requests).toBe(5)
  })

  test('a log that is not compressed is read whole', async () => {
    const log = `${'\n'.repeat(17 * 1024 ** 2)}${FIVE_REQUESTS}`
    expect(await replayed({ 'a.json': BUNDLE, log }, ['--bundle', 'a.json', 'log'])).toMatchObject({ requests: 5, unreadable: 0 })
  })
})

describe('a compressed log', () => {
  test('is read whole if it is requests after all, however well it compresses', async () => {
    const log = gzipSync(LOG_WRITERS.json(Array(1800).fill({ timeMs: 1_767_225_600_000, uri: `/${'x'.repeat(10_000)}` })))
    expect(log.length).toBeLessThan(18_000_000 / 100)
    const { status, stdout, stderr } = await replaying({ 'a.json': BUNDLE, log }, ['--bundle', 'a.json', '--json', 'log'])
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    expect(JSON.parse(stdout).requests).toBe(1800)
  })
})

describe('the program', () => {
  test('ends calmly on Ctrl-C, while it waits for a pipe', async () => {
    const directory = await scratchDirectory()
    await writeFile(join(directory, 'a.json'), JSON.stringify({ bundle_version: 1, policies: BUNDLE }))
    const child = spawn(process.execPath, [ENTRY, 'replay', '--bundle', 'a.json', '-'], { cwd: directory })
    let stderr = ''
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk.toString()
    })
    const closed = new Promise<number | null>((resolve) => child.on('close', resolve))
    // Its handler is there when it reads: a pipe holds 64 KiB.
    let isRead = false
    child.stdin.write('x'.repeat(2 ** 20), () => {
      isRead = true
    })
    await until(() => isRead)
    child.kill('SIGINT')
    expect(await closed).toBe(130)
    expect(stderr).toBe('edge replay: interrupted after 0 requests\n')
  })

  test('ends calmly when nobody reads its report', async () => {
    const directory = await scratchDirectory()
    const callers = Array.from(
      { length: 6000 },
      (_, i): Logged => ({ timeMs: 1_767_225_600_000, uri: '/', headers: { k: `caller-${i >> 1}` } }),
    )
    const rule = {
      name: 'r',
      match: { 'header:k': '*' },
      limit_keys: ['header:k'],
      algorithm: 'token_bucket',
      algorithm_config: { tokens_per_second: 1, burst: 1 },
    }
    await writeFiles(directory, { 'a.json': [{ id: 'all', spec: { rules: [rule, REST] } }], log: LOG_WRITERS.json(callers) })
    const child = spawn(process.execPath, [ENTRY, 'replay', '--bundle', 'a.json', '--json', 'log'], { cwd: directory })
    let stderr = ''
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk.toString()
    })
    child.stdout.once('data', () => child.stdout.destroy())
    const status = await new Promise((resolve) => child.on('close', resolve))
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  })
})
