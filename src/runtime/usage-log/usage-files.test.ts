import { execFileSync } from 'node:child_process'
import { mkdir, readFile, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { until } from '../../../test/support/until.ts'
import { openUsageFiles, usageLineOf } from '../../../test/support/usage/usage-files.ts'
import { usageLines } from '../../../test/support/usage/usage-proxy.ts'

const HOUR_MS = 3_600_000
const NOON = usageLineOf('2026-01-15T12:10:00.000Z', 5, 70)
const LATE = usageLineOf('2026-01-15T12:59:59.999Z', 6, 80)
const ONE = usageLineOf('2026-01-15T13:00:00.000Z', 7, 90)

describe('an hour', () => {
  test('has a file, which is compressed when it is over; lines that come later have another', async () => {
    const { write, names, directory, clock } = await openUsageFiles()
    await write(NOON)
    await write(LATE, ONE)
    const [noon, one] = await names()
    expect(noon).toMatch(/^usage-2026-01-15T12-[0-9a-f]{8}-1\.jsonl$/)
    expect(one).toMatch(/^usage-2026-01-15T13-[0-9a-f]{8}-1\.jsonl$/)
    expect(await readFile(join(directory, noon!), 'utf8')).toBe(NOON + LATE)
    clock.advance(HOUR_MS + 31_000)
    await until(async () => (await names()).includes(`${noon}.gz`) && !(await names()).includes(noon!))
    expect(gunzipSync(await readFile(join(directory, `${noon}.gz`))).toString()).toBe(NOON + LATE)
    await write(LATE)
    const second = noon!.replace('-1.jsonl', '-2.jsonl')
    await until(async () => (await names()).includes(`${second}.gz`))
    expect(await names()).toContain(one)
    expect(await usageLines(directory)).toHaveLength(4)
  })

  test('that comes again, because the clock was set back, is continued', async () => {
    const { write, names, directory } = await openUsageFiles()
    await write(ONE)
    await write(NOON)
    await write(ONE)
    expect(await names()).toHaveLength(2)
    expect(await usageLines(directory)).toHaveLength(3)
  })

  test('whose file was moved away gets a new one', async () => {
    const { write, names, directory } = await openUsageFiles()
    await write(NOON)
    const [name] = await names()
    await rename(join(directory, name!), join(directory, 'elsewhere'))
    await write(LATE)
    expect(await readFile(join(directory, name!), 'utf8')).toBe(LATE)
    await rm(directory, { recursive: true })
    await write(NOON)
    expect(await readFile(join(directory, name!), 'utf8')).toBe(NOON)
  })
})

test('an hour whose file somebody else has compressed gets another one, and keeps both', async () => {
  const { write, names, directory, clock } = await openUsageFiles()
  await write(NOON)
  const [name] = await names()
  await writeFile(join(directory, `${name}.gz`), gzipSync(NOON))
  await rm(join(directory, name!))
  await write(LATE)
  expect(await names()).toEqual([`${name}.gz`, name!.replace('-1.jsonl', '-2.jsonl')])
  clock.advance(HOUR_MS + 31_000)
  await until(async () => (await names()).every((each) => each.endsWith('.gz')))
  expect(await usageLines(directory)).toHaveLength(2)
})

test('a file that cannot be compressed keeps none of the others from being removed or compressed', async () => {
  const { write, names, directory, clock, said } = await openUsageFiles()
  await write(NOON)
  const [own] = await names()
  // A directory can be neither read nor written as a file, like anything on a full disk.
  await mkdir(join(directory, 'usage-2026-01-01T00-00000001-1.jsonl'))
  await writeFile(join(directory, 'usage-2026-01-01T01-00000001-1.jsonl.gz'), gzipSync(NOON))
  clock.advance(2 * HOUR_MS)
  await until(async () => (await names()).includes(`${own}.gz`) && !(await names()).includes('usage-2026-01-01T01-00000001-1.jsonl.gz'))
  expect(await names()).toContain('usage-2026-01-01T00-00000001-1.jsonl')
  await until(() => said.filter(({ event }) => event === 'usage_upkeep_failed').length === 1)
  await rm(join(directory, 'usage-2026-01-01T00-00000001-1.jsonl'), { recursive: true })
  await until(() => said.some(({ event }) => event === 'usage_upkeep_resumed'))
})

test('files are removed when they are too old, but not while the clock may be wrong', async () => {
  const { write, names, clock, directory } = await openUsageFiles()
  await write(NOON)
  await writeFile(join(directory, 'notes.txt'), 'of somebody else')
  clock.advance(50 * HOUR_MS)
  await until(async () => !(await names()).some((name) => name.startsWith('usage-')))
  expect(await names()).toEqual(['notes.txt'])
  // A year ahead, where the file would be too old.
  clock.setBack(-365 * 24 * HOUR_MS)
  await write(NOON)
  const half = 'usage-2026-01-15T11-00000001-1.jsonl.gz.0123456789ab.new'
  for (let round = 0; round < 2; round++) {
    await writeFile(join(directory, half), 'half')
    await until(async () => !(await names()).includes(half))
  }
  expect(await usageLines(directory)).toHaveLength(1)
  clock.advance(HOUR_MS)
  await until(async () => (await names()).length === 1)
})

describe('files of other processes', () => {
  test('are compressed when nobody has written them for two hours, and what was left half done is cleared away', async () => {
    const { write, names, directory, clock } = await openUsageFiles()
    await write(NOON)
    const nowS = clock.wallMs() / 1000
    const put = async (name: string, bytes: string | Buffer, ageS: number): Promise<void> => {
      await writeFile(join(directory, name), bytes)
      await utimes(join(directory, name), nowS - ageS, nowS - ageS)
    }
    await put('usage-2026-01-15T11-00000002-1.jsonl', LATE, 3600)
    await put('usage-2026-01-15T11-00000001-1.jsonl.gz.0123456789ab.new', 'half', 8000)
    await put('usage-2026-01-15T10-00000003-1.jsonl.gz', gzipSync(LATE), 8000)
    await put('usage-2026-01-15T10-00000003-1.jsonl', LATE, 10)
    await put('usage-2026-01-15T09-00000001-1.jsonl', NOON, 8000)
    const [own] = (await names()).filter((name) => name.includes('T12'))
    const expected = [
      'usage-2026-01-15T09-00000001-1.jsonl.gz',
      'usage-2026-01-15T10-00000003-1.jsonl.gz',
      'usage-2026-01-15T11-00000002-1.jsonl',
      own,
    ]
    await until(async () => JSON.stringify(await names()) === JSON.stringify(expected))
    expect(await usageLines(directory)).toHaveLength(4)
  })

  test('that are links or pipes are neither followed nor waited for', async () => {
    const { write, names, directory, clock } = await openUsageFiles()
    await write(NOON)
    const target = join(directory, 'of somebody else')
    await writeFile(target, LATE)
    const nowS = clock.wallMs() / 1000
    await utimes(target, nowS - 8000, nowS - 8000)
    const [link, pipe] = ['usage-2026-01-15T08-00000001-1.jsonl', 'usage-2026-01-15T08-00000002-1.jsonl']
    await symlink(target, join(directory, link))
    execFileSync('mkfifo', [join(directory, pipe)])
    await utimes(join(directory, pipe), nowS - 8000, nowS - 8000)
    await writeFile(join(directory, 'usage-2026-01-15T09-00000001-1.jsonl'), NOON)
    await utimes(join(directory, 'usage-2026-01-15T09-00000001-1.jsonl'), nowS - 8000, nowS - 8000)
    await until(async () => (await names()).includes('usage-2026-01-15T09-00000001-1.jsonl.gz'))
    expect(await names()).toEqual(expect.arrayContaining([link, pipe, 'of somebody else']))
    expect((await names()).filter((name) => name.endsWith('.gz'))).toHaveLength(1)
  })
})

test('files that another process writes are left alone after a step of the clock, by which they look old', async () => {
  const one = await openUsageFiles()
  const other = await openUsageFiles(one.directory)
  await other.write(NOON)
  const [name] = await other.names()
  const setTime = (file: string, ms: number): Promise<void> => utimes(join(one.directory, file), ms / 1000, ms / 1000)
  await setTime(name!, one.clock.wallMs())
  one.clock.setBack(-25 * HOUR_MS)
  const half = 'usage-2026-01-15T11-00000001-1.jsonl.gz.0123456789ab.new'
  for (let round = 0; round < 2; round++) {
    await writeFile(join(one.directory, half), 'half')
    await setTime(half, 0)
    await until(async () => !(await one.names()).includes(half))
  }
  expect(await one.names()).toEqual([name])
  one.clock.advance(2 * HOUR_MS)
  await until(async () => (await one.names()).includes(`${name}.gz`))
})

test('lines that cannot be written are counted with what they were charged, and the next ones are tried again', async () => {
  const { write, directory, said, count } = await openUsageFiles()
  await writeFile(directory, 'no directory')
  await write(NOON, LATE)
  await write(ONE)
  expect(said.filter(({ event }) => event === 'usage_not_written')).toHaveLength(1)
  expect(count('edge_usage_lines_lost_total', 'disk_failed')).toBe(3)
  expect(count('edge_usage_lost_tokens_total', 'p', 'tokens')).toBe(18)
  expect(count('edge_usage_lost_cost_total', 'p', 'money')).toBe(240 / 1e9)
  await rm(directory)
  await mkdir(directory)
  await write(NOON)
  expect(said.filter(({ event }) => event === 'usage_written_again')).toHaveLength(1)
  expect(count('edge_usage_lines_written_total')).toBe(1)
  expect(await usageLines(directory)).toHaveLength(1)
  await until(() => said.some(({ event }) => event === 'usage_upkeep_resumed'))
})
