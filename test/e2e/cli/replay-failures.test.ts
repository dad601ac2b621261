import { spawn } from 'node:child_process'
import { mkdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { ALL as BUNDLE, FIVE_REQUESTS as LOG, readInPart } from '../../support/replay/hardly-requests.ts'
import { LOG_WRITERS, type Logged } from '../../support/replay/log-writers.ts'
import { replaying, writeFiles } from '../../support/replay/replaying.ts'
import { command } from '../../support/service/command.ts'
import { scratchDirectory } from '../../support/service/running.ts'

const ENTRY = fileURLToPath(new URL('../../../program/edge.js', import.meta.url))
const FILES = { 'a.json': BUNDLE, log: LOG }

describe('what cannot be replayed is said in a sentence, with status 1', () => {
  test.each([
    [[], 'expected --bundle FILE'],
    [['log'], 'expected --bundle FILE'],
    [['--bundle', 'a.json'], 'expected at least one log; - is standard input'],
    [['--bundle', 'a', '--bundle', 'b', '--bundle', 'c', 'log'], 'expected one or two bundles, got 3'],
    [['--bundle', 'a.json', '--mode', 'proxy', 'log'], '--mode: expected decision_service or reverse_proxy, got "proxy"'],
    [['--bundle', 'a.json', '--html', '', 'log'], '--html: expected the name of a file'],
    [['--bundle', 'a.json', 'x.log', 'x.log'], 'x.log is given twice'],
    [['--bundle', 'a.json', '-', '-'], 'standard input is given twice'],
    [['--bundle', 'a.json', '--what', 'log'], "Unknown option '--what'"],
    [
      ['--bundle', 'a.json', ...Array.from({ length: 501 }, (_, i) => `${i}.log`)],
      'expected at most 500 logs, got 501; join some with cat',
    ],
  ])('edge replay %j', async (args, problem) => {
    const { status, stdout, stderr } = await replaying({ 'a.json': BUNDLE }, args)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(`edge replay: ${problem}`)
  })

  test.each([
    ['nothing', '', 'there is no request in these logs'],
    ['nonsense', 'a\nb\n', 'no line of these logs could be read\n  log:1: neither the combined format nor JSON'],
    [
      'zstd',
      Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0]),
      'log: it is compressed by zstd; decompress it first: zstdcat FILE | edge replay … -',
    ],
    ['UTF-16', Buffer.from(`\ufeff${LOG}`, 'utf16le'), 'log: it is in UTF-16'],
    ['a zip archive', Buffer.from('PK\x03\x04'), 'log: it is a zip archive'],
    ['damaged gzip', Buffer.concat([Buffer.from([0x1f, 0x8b]), Buffer.alloc(50)]), 'its compressed data is damaged'],
  ])('a log of %s', async (_, log, problem) => {
    const { status, stdout, stderr } = await replaying({ ...FILES, log }, ['--bundle', 'a.json', '--json', 'log'])
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(problem)
  })

  test('files that are not there, are directories, or are no bundles', async () => {
    const directory = await scratchDirectory()
    await writeFiles(directory, { ...FILES, 'bad.json': '{}' })
    await mkdir(join(directory, 'dir'))
    const run = (...args: string[]): ReturnType<typeof command> =>
      command('replay', ...args.map((arg) => (arg.startsWith('--') ? arg : join(directory, arg))))
    expect((await run('--bundle', 'a.json', 'none')).stderr).toContain('/none: there is no such file')
    expect((await run('--bundle', 'a.json', 'dir')).stderr).toContain('/dir: it is a directory')
    expect((await run('--bundle', 'none.json', 'log')).stderr).toContain('/none.json: there is no such file')
    expect((await run('--bundle', 'bad.json', 'log')).stderr).toContain('bundle_version')
    expect((await run('--bundle', 'a.json', '--html', 'none/x.html', 'log')).stderr).toContain('x.html: its directory does not exist')
    expect((await run('--bundle', 'a.json', '--html', 'log', 'log')).stderr).toContain('is one of the files to read')
    expect((await run('--bundle', 'a.json', '--html', 'dir', 'log')).stderr).toContain('/dir: it is not a regular file')
    expect(await readFile(join(directory, 'log'), 'utf8')).toBe(LOG)
  })
})

test('a log whose compressed data ends early counts as far as it goes', async () => {
  const bytes = gzipSync(
    LOG_WRITERS.json(Array.from({ length: 1000 }, (_, i): Logged => ({ timeMs: 1_767_225_600_000 + i, uri: `/${Math.sin(i)}` }))),
  )
  const { status, stdout, stderr } = await replaying({ ...FILES, log: bytes.subarray(0, bytes.length / 2) }, [
    '--bundle',
    'a.json',
    '--json',
    'log',
  ])
  expect(status).toBe(0)
  expect(JSON.parse(stdout).requests).toBeGreaterThan(100)
  expect(JSON.parse(stdout).unreadable).toBeGreaterThanOrEqual(1)
  expect(stderr).toContain('log:end: its compressed data ends early')
})

describe('a compressed log that is hardly requests', () => {
  test('is read in part, and the report says so', async () => {
    const { requests, unreadable } = await readInPart('x\n', 1024 ** 2)
    expect(requests).toBe(5)
    // Each counts as 66 characters of 16 MiB; a piece of 128 KiB is read whole.
    expect(unreadable).toBeLessThan(330_000)
  })

  test('is read in part if it is a HAR document without requests', async () => {
    const log = gzipSync(`{"log":{"entries":[${'{},'.repeat(300_000)}{}]}}`)
    const { status, stderr } = await replaying({ ...FILES, log }, ['--bundle', 'a.json', '--json', 'log'])
    expect(status).toBe(1)
    expect(stderr).toMatch(/^ {2}log:end: it contains too much text that is not requests \(more than 32 times/m)
  })
})

test('the help says how it is used', async () => {
  const { status, stdout } = await command('replay', '--help')
  expect(status).toBe(0)
  expect(stdout).toMatch(/^Usage: edge replay --bundle FILE/)
})

test('the HTML report is for its owner alone', async () => {
  const { status, directory } = await replaying(FILES, ['--bundle', 'a.json', '--html', 'report.html', 'log'])
  expect(status).toBe(0)
  expect((await stat(join(directory, 'report.html'))).mode & 0o777).toBe(0o600)
})

describe('the program', () => {
  interface Ran {
    readonly stdout: string
    readonly stderr: string
    readonly status: number | NodeJS.Signals
  }

  async function ran(args: readonly string[], input?: string): Promise<Ran> {
    const directory = await scratchDirectory()
    await writeFiles(directory, FILES)
    const env = { ...process.env, EDGE_STORE_SIZE: '1m' }
    const child = spawn(process.execPath, [ENTRY, 'replay', '--bundle', 'a.json', ...args], { cwd: directory, env })
    let [stdout, stderr] = ['', '']
    child.stdout.on('data', (chunk: Buffer) => {
      stdout += chunk.toString()
    })
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk.toString()
    })
    child.stdin.end(input)
    const status = await new Promise<number | NodeJS.Signals>((resolve) => child.on('close', (code, signal) => resolve(code ?? signal!)))
    return { stdout, stderr, status }
  }

  test('reads standard input, and writes no progress into pipes', async () => {
    const { stdout, stderr, status } = await ran(['--json', '-', 'log'], LOG)
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 })
    expect(JSON.parse(stdout)).toMatchObject({ requests: 10, bundles: [{ allowed: 2, rejected: 8 }] })
  })
})
