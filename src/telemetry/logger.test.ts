import { execFileSync } from 'node:child_process'
import { closeSync, constants, mkdtempSync, openSync, readFileSync, readSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { LogStream, newPartialLineFlag } from './logger.ts'

test('a line goes out as it is', () => {
  const path = join(scratch(), 'log')
  const fd = openSync(path, 'w')
  new LogStream(fd).write('{"msg":"a"}\n')
  closeSync(fd)
  expect(readFileSync(path, 'utf8')).toBe('{"msg":"a"}\n')
})

test('what a terminal would obey goes out escaped', () => {
  const path = join(scratch(), 'log')
  const fd = openSync(path, 'w')
  new LogStream(fd).write(`${JSON.stringify({ path: '/\u009b2J\u202e' })}\n`)
  closeSync(fd)
  expect(readFileSync(path, 'utf8')).toBe('{"path":"/\\u009b2J\\u202e"}\n')
})

test('a disk that is full costs the line and nothing else', () => {
  const fd = openSync('/dev/full', 'w')
  const stream = new LogStream(fd)
  expect(() => stream.write('{"msg":"a"}\n')).not.toThrow()
  closeSync(fd)
  expect(() => stream.write('{"msg":"b"}\n')).not.toThrow()
})

test('a reader that is asleep is not waited for; the next line that fits says how many were lost', () => {
  const path = join(scratch(), 'pipe')
  execFileSync('mkfifo', [path])
  const fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK)
  onTestFinished(() => closeSync(fd))
  const stream = new LogStream(fd)
  const line = `{"msg":"${'x'.repeat(4094)}"}\n`
  for (let i = 0; i < 20; i++) stream.write(line)
  const whole = drain(fd)
  const before = whole.split('\n').filter((text) => `${text}\n` === line).length
  expect(before).toBeLessThan(20)
  stream.write('{"msg":"awake"}\n')
  const lines = drain(fd).split('\n').filter(Boolean)
  expect(lines.map((text) => JSON.parse(text) as object)).toEqual([
    {
      level: 'warn',
      time: expect.stringMatching(/^\d{4}-.*Z$/),
      event: 'log_lines_lost',
      lines: 20 - before,
      msg: 'the log could not be written',
    },
    { msg: 'awake' },
  ])
})

test('a line that broke off is not continued by another thread', () => {
  const path = join(scratch(), 'pipe')
  execFileSync('mkfifo', [path])
  const fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK)
  onTestFinished(() => closeSync(fd))
  const broken = newPartialLineFlag()
  new LogStream(fd, broken).write(`{"msg":"${'x'.repeat(1 << 17)}"}\n`)
  expect(drain(fd).startsWith('{"msg":"xxx')).toBe(true)
  new LogStream(fd, broken).write('{"msg":"b"}\n')
  expect(drain(fd)).toBe('\n{"msg":"b"}\n')
  new LogStream(fd, broken).write('{"msg":"c"}\n')
  expect(drain(fd)).toBe('{"msg":"c"}\n')
})

function drain(fd: number): string {
  const buffer = Buffer.alloc(1 << 20)
  return buffer.toString('utf8', 0, readSync(fd, buffer))
}

function scratch(): string {
  const directory = mkdtempSync(join(tmpdir(), 'edge-test-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  return directory
}
