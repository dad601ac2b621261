import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, test } from 'vitest'
import { command, type Said } from '../../support/service/command.ts'
import { finished, scratchDirectory } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { usageLineOf } from '../../support/usage/usage-files.ts'

const suite = thisSuite()
let directory: string

beforeAll(async () => {
  directory = await scratchDirectory(suite)
  const put = (name: string, bytes: string | Buffer): Promise<void> => writeFile(join(directory, name), bytes)
  const red = usageLineOf('2026-11-18T10:00:00.000Z', 100, 1_500_000_001)
  const blue = usageLineOf('2026-11-18T10:59:59.999Z', 7, 20, 'blue')
  await put('usage-2026-11-18T10-00000001-1.jsonl.gz', Buffer.concat([gzipSync(red), gzipSync(blue)]))
  // Left behind by a process that was killed while it compressed.
  await put('usage-2026-11-18T10-00000001-1.jsonl', red)
  await put('usage-2026-11-18T11-00000001-1.jsonl', usageLineOf('2026-11-18T11:30:00.000Z', 11, 3, '=1+1') + red.slice(0, 40))
  await put('usage-2026-12-01T00-00000002-1.jsonl', usageLineOf('2026-12-01T00:00:00.000Z', 1, 1, 'ü,"\x1b[31m'))
  await put('notes.txt', 'no line')
})

function report(...args: string[]): Promise<Said> {
  return command('usage', ...args)
}

describe('a report', () => {
  test('has a row for each combination of values, the dearest first, and the total', async () => {
    const { status, stdout, stderr } = await finished(['usage', '--by', 'caller:team,model', directory])
    expect(status).toBe(0)
    expect(stdout).toBe(
      [
        '  CALLER:TEAM    MODEL  REQUESTS  INPUT  CACHED  OUTPUT  CHARGED  COST',
        '  red            big           1    100       0       1      100  1.500000001',
        '  blue           big           1      7       0       1        7  0.00000002',
        '  =1+1           big           1     11       0       1       11  0.000000003',
        '  ü,"\\u{1b}[31m  big           1      1       0       1        1  0.000000001',
        '  total                        4    119       0       4      119  1.500000025',
        '',
      ].join('\n'),
    )
    expect(stderr).toBe('edge usage: 1 line could not be read and is left out, such as the last one of a process that was killed\n')
  })

  test('is of a time', async () => {
    const { stdout, stderr } = await report('--from', '2026-11', '--to', '2026-11-18T11Z', '--by', 'caller:team', '--csv', directory)
    expect(stdout).toBe(
      'caller:team,requests,input,cached_input,output,charged,cost\r\nred,1,100,0,1,100,1.500000001\r\nblue,1,7,0,1,7,0.00000002\r\n',
    )
    expect(stderr).toBe('')
    const december = await report('--from', '2026-12-01', '--by', 'caller:team', '--csv', directory)
    expect(december.stdout.split('\r\n')[1]).toBe('"ü,""\ufffd[31m",1,1,0,1,1,0.000000001')
  })

  test('as CSV has no formulas, and as JSON numbers in full', async () => {
    const { stdout } = await report('--from', '2026-11-18T11:00Z', '--to', '2026-12', '--by', 'caller:team', '--csv', directory)
    expect(stdout.split('\r\n')[1]).toBe("'=1+1,1,11,0,1,11,0.000000003")
    const json = JSON.parse((await report('--to', '2026-12', '--by', 'day', '--json', directory)).stdout)
    expect(json).toEqual({
      by: ['day'],
      rows: [{ values: { day: '2026-11-18' }, requests: 3, input: 118, cached_input: 0, output: 3, charged: 118, cost: '1.500000024' }],
      total: { values: {}, requests: 3, input: 118, cached_input: 0, output: 3, charged: 118, cost: '1.500000024' },
      unreadable_lines: 1,
      damaged_files: [],
    })
  })

  test('is by rule unless it says otherwise, and may be of one rule', async () => {
    const { stdout } = await report('--csv', '--to', '2026-11-18T10:30Z', directory)
    expect(stdout.split('\r\n').slice(1)).toEqual(['p/money,1,100,0,1,0,1.500000001', 'p/tokens,1,100,0,1,100,0.00', ''])
    const one = await report('--csv', '--by', 'month', '--rule', 'p/tokens', '--to', '2026-12', directory)
    expect(one.stdout.split('\r\n')[1]).toBe('2026-11,3,118,0,3,118,0.00')
  })

  test('reads single files and several directories', async () => {
    const other = await scratchDirectory()
    const file = join(other, 'moved.gz')
    await writeFile(join(other, 'usage-2026-11-18T10-00000009-1.jsonl'), usageLineOf('2026-11-18T10:00:00.000Z', 5, 5))
    await writeFile(
      join(other, 'big.jsonl'),
      usageLineOf('2026-11-18T10:00:00.000Z', Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER).repeat(3),
    )
    await rename(join(other, 'big.jsonl'), file)
    const { stdout } = await report('--csv', '--by', 'month', other, file)
    expect(stdout.split('\r\n')[1]).toBe('2026-11,4,27021597764222978,0,4,27021597764222978,27021597.764222978')
  })
})

describe('a mistake', () => {
  test.each([
    [[], 'expected at least one directory, as EDGE_USAGE_DIR names it'],
    [['/nowhere'], '/nowhere: there is no such file'],
    [['--by', 'bakend', 'd'], 'did you mean backend?'],
    [['--by', 'callers:team', 'd'], 'did you mean caller:team?'],
    [['--by', 'model,model', 'd'], '--by: model is named twice'],
    [['--from', 'yesterday', 'd'], '--from: expected a time such as 2026-11, 2026-11-18 or 2026-11-18T10:30Z (UTC), got "yesterday"'],
    [['--from', '2026-02-30', 'd'], 'got "2026-02-30"'],
    [['--from', '2026-11', '--to', '2026-11', 'd'], '--to: expected a time after --from (2026-11), got "2026-11"'],
    [['--csv', '--json', 'd'], 'expected --csv or --json, got both'],
    [['--rule', 'tokens', 'd'], '--rule: expected POLICY/RULE, got "tokens"'],
    [['--form', '2026-11', 'd'], 'did you mean --from?'],
    [['d', 'd'], 'd is given twice'],
  ])('%j is answered with a sentence', async (args, sentence) => {
    const { status, stdout, stderr } = await report(...args)
    expect([status, stdout]).toEqual([1, ''])
    expect(stderr).toContain(sentence)
    expect(stderr.startsWith('edge usage: ')).toBe(true)
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
  })

  test('a file in a compression that is not read is one, with what reads it', async () => {
    const file = join(await scratchDirectory(), 'usage.jsonl.zst')
    await writeFile(file, Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0]))
    expect((await report(file)).stderr).toContain('it is compressed by zstd; decompress it first: zstdcat FILE | edge usage … -')
  })

  test('nothing to sum up is one, too', async () => {
    expect((await report('--from', '2027', directory)).stderr).toContain('--from: expected a time')
    expect((await report('--from', '2027-01', directory)).stderr).toContain('there is no file of this time in')
    expect((await report('--rule', 'p/other', directory)).stderr).toContain('there is no request of this time that p/other charged')
    expect((await report(join(directory, 'notes.txt'))).stderr).toContain('these files are no usage log: not one of 1 line could be read')
  })

  test.each([
    ['--from', '2027-01'],
    ['--rule', 'p/other'],
  ])('a time without requests is an empty document for programs, with a note (%s)', async (...range) => {
    const csv = await report(...range, '--csv', directory)
    expect([csv.status, csv.stdout.trimEnd().split('\r\n')]).toEqual([
      0,
      [expect.stringMatching(/,requests,input,cached_input,output,charged,cost$/)],
    ])
    expect(csv.stderr).toContain('edge usage: there is no ')
    const json = await report(...range, '--json', directory)
    expect([json.status, JSON.parse(json.stdout)]).toMatchObject([0, { rows: [], total: { requests: 0 } }])
    expect((await report('--csv', join(directory, 'notes.txt'))).status).toBe(1)
  })

  test('--help explains the command', async () => {
    const { status, stdout } = await report('--help')
    expect(status).toBe(0)
    expect(stdout).toContain('Usage: edge usage [--by KEYS]')
  })
})
