import { createHash } from 'node:crypto'
import { chmod, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { useStubApi } from '../../support/admin/stub-api.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { command } from '../../support/service/command.ts'
import { scratchDirectory } from '../../support/service/running.ts'

const { api } = useStubApi()

const OLD = JSON.stringify(bundle(41))
const BAD = JSON.stringify(bundle(42))
const BACK = JSON.stringify(bundle(43))

interface Answers {
  /** What `GET bundle` says of the active bundle and of the source, after that many questions. */
  readonly active?: (asked: number) => string
  readonly source?: (asked: number) => object
  readonly text?: string
}

/** An instance that had bundle 41 and has 42, and reads this file. */
function instance(path: string, { active = () => '42', source = () => ({}), text = OLD }: Answers = {}): void {
  const past = { applied_at: '2026-11-17T00:00:00Z', policies: 0, hash: hashOf(BAD) }
  const place = { path, url: null, cached: false, signature_required: false, problem: null, refused: null }
  let asked = 0
  api().respond = (res) => {
    const { pathname } = new URL(res.req.url!, 'http://h')
    const answers: Readonly<Record<string, () => object>> = {
      '/admin/v1/bundle': () => ({
        bundle: { ...past, version: active(asked), hash: hashOf(active(asked) === '43' ? BACK : BAD) },
        source: { ...place, ...source(asked++) },
        previous: null,
        changes: null,
      }),
      '/admin/v1/bundles': () => ({ bundles: ['42', '41'].map((version) => ({ ...past, version, format: 'json', has_text: true })) }),
      '/admin/v1/bundles/announcements': () => ({}),
      '/admin/v1/bundles/41': () => ({ ...past, version: '41', format: 'json', hidden: 0, text }),
    }
    res.end(JSON.stringify(answers[pathname]!()))
  }
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

async function fileWith(text: string, name = 'limits.json'): Promise<string> {
  const file = join(await scratchDirectory(), name)
  await writeFile(file, text)
  return file
}

describe('edge rollback --publish', () => {
  test('asks for the text as it came', async () => {
    instance('/nowhere/limits.json')
    await command('rollback')
    expect(api().requests.map(({ url }) => url)).toEqual([
      '/admin/v1/bundle',
      '/admin/v1/bundles',
      '/admin/v1/bundles/41?credentials=clear',
    ])
  })

  test('leaves a file alone that has something else in it than the instance: it is on another machine', async () => {
    const file = await fileWith(OLD)
    instance(file)
    const { status, stdout, stderr } = await command('rollback', '--publish', file, '--reason', 'why')
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(`nothing is published: ${file} does not have the active bundle. Run this on the machine of the instance`)
    expect(await readFile(file, 'utf8')).toBe(OLD)
  })

  test('leaves a file alone that cannot be read, or whose name says another format', async () => {
    const file = join(dirname(await fileWith('')), 'missing.json')
    instance(file)
    expect((await command('rollback', '--publish', file, '--reason', 'why')).stderr).toContain(`${file}: there is no such file`)
    const yaml = await fileWith(BAD, 'limits.yaml')
    instance(yaml)
    expect((await command('rollback', '--publish', yaml, '--reason', 'why')).stderr).toContain(
      `the bundle is JSON, which the name ${yaml} does not say. For the text: edge rollback > limits.json`,
    )
  })

  test('knows the file of a service that was started in its directory', async () => {
    const file = await fileWith(BAD)
    instance('limits.json', { active: (asked) => (asked === 0 ? '42' : '43') })
    expect((await command('rollback', '--publish', file, '--reason', 'why')).stdout).toBe(
      'Version 43 is active, with the policies of 41.\n',
    )
    expect(await readFile(file, 'utf8')).toBe(BACK)
    instance('other/limits.json')
    expect((await command('rollback', '--publish', file, '--reason', 'why')).stderr).toContain('the instance reads other/limits.json, not ')
  })

  test('keeps what the instance could not take, and leaves a file alone that may be another one', async () => {
    const file = await fileWith('{ "damaged')
    const source = () => ({ problem: 'it was refused' })
    instance('limits.json', { source })
    expect((await command('rollback', '--publish', file, '--reason', 'why')).stderr).toContain(
      'by a relative path, so this may be another one. Run this on the machine of the instance, or again in a second if it has just changed. For the text: edge rollback > rollback.json',
    )
    expect(await readFile(file, 'utf8')).toBe('{ "damaged')
    instance(file, { source, active: (asked) => (asked === 0 ? '42' : '43') })
    expect(await command('rollback', '--publish', file, '--reason', 'why')).toEqual({
      status: 0,
      stdout: 'Version 43 is active, with the policies of 41.\n',
      stderr: `edge rollback: what ${file} had is in ${file}.before-rollback\n`,
    })
    expect([await readFile(file, 'utf8'), await readFile(`${file}.before-rollback`, 'utf8')]).toEqual([BACK, '{ "damaged'])
  })

  test('takes the place of what the instance has just refused, by whatever path it names its file', async () => {
    const file = await fileWith(OLD)
    const refused = {
      version: '41',
      hash: hashOf(OLD),
      problems: ['expected a version above the active one (42), got 41'],
      problems_in_all: 1,
    }
    instance('limits.json', {
      source: () => ({ problem: 'it was refused', refused }),
      active: (asked) => (asked === 0 ? '42' : '43'),
    })
    expect(await command('rollback', '--publish', file, '--reason', 'why')).toEqual({
      status: 0,
      stdout: 'Version 43 is active, with the policies of 41.\n',
      stderr: `edge rollback: what ${file} had is in ${file}.before-rollback\n`,
    })
    expect(await readFile(file, 'utf8')).toBe(BACK)
  })

  test('says why the instance refuses it', async () => {
    const file = await fileWith(BAD)
    const refused = { version: '43', hash: null, problems: ['workers have died of it\u0007'], problems_in_all: 1 }
    instance(file, { source: (asked) => (asked < 2 ? {} : { refused, problem: 'it was refused' }) })
    const { status, stderr } = await command('rollback', '--publish', file, '--reason', 'why')
    expect({ status, stderr }).toEqual({
      status: 1,
      stderr: `edge rollback: the instance refused version 43: workers have died of it\\u{7}. What ${file} had is in ${file}.before-rollback\n`,
    })
  })

  test('says that it had no effect where the instance looks at its file and finds another one, and keeps what the file had', async () => {
    const file = await fileWith(BAD)
    await writeFile(`${file}.before-rollback`, 'of an earlier rollback')
    instance(file, { source: (asked) => ({ looks: 1000 + asked * 15 }) })
    expect(await command('rollback', '--publish', file, '--reason', 'why')).toEqual({
      status: 1,
      stdout: '',
      stderr: `edge rollback: this had no effect: the instance has looked at its ${file} 45 times since, and it is not the file that was written here, ${file}. Run edge rollback on the machine of the instance. What ${file} had is in ${file}.before-rollback.2\n`,
    })
    expect(await readFile(`${file}.before-rollback`, 'utf8')).toBe('of an earlier rollback')
    expect(await readFile(`${file}.before-rollback.2`, 'utf8')).toBe(BAD)
  })

  test('announces the text before it writes it, and writes nothing if that fails', async () => {
    const file = await fileWith(BAD)
    instance(file, { active: (asked) => (asked === 0 ? '42' : '43') })
    await command('rollback', '--publish', file, '--reason', 'why')
    const announced = api().requests.find(({ method }) => method === 'POST')!
    expect([announced.url, announced.body]).toEqual(['/admin/v1/bundles/announcements', { hash: hashOf(BACK), reason: 'why' }])
    expect(await readdir(dirname(file))).toEqual(['limits.json'])
    await writeFile(file, BAD)
    instance(file)
    const respond = api().respond
    api().respond = (res) => (res.req.method === 'POST' ? void res.writeHead(503).end('{}') : respond(res))
    expect((await command('rollback', '--publish', file, '--reason', 'why')).stderr).toContain('edge rollback: nothing was changed: ')
    expect([await readFile(file, 'utf8'), await readdir(dirname(file))]).toEqual([BAD, ['limits.json']])
  })

  test('says that somebody else was faster', async () => {
    const file = await fileWith(BAD)
    instance(file, { active: (asked) => (asked === 0 ? '42' : '50') })
    expect((await command('rollback', '--publish', file, '--reason', 'why')).stderr).toBe(
      `edge rollback: version 50 is active: somebody else has published it meanwhile. What ${file} had is in ${file}.before-rollback\n`,
    )
  })

  test('a text whose version cannot be replaced is published by hand', async () => {
    instance('limits.json', { text: '{"bundle_version": 41, "policies": [{}]}' })
    expect(await command('rollback')).toEqual({
      status: 1,
      stdout: '',
      stderr: 'edge rollback: bundle 41: this version of edge cannot read the earlier bundle\n',
    })
  })

  test.skipIf(process.getuid?.() === 0)('a directory that this user may not write to', async () => {
    const file = await fileWith(BAD)
    await chmod(dirname(file), 0o500)
    instance(file)
    const { stderr } = await command('rollback', '--publish', file, '--reason', 'why')
    await chmod(dirname(file), 0o700)
    expect(stderr).toBe(`edge rollback: nothing was changed: ${file}: this user is not allowed to write there\n`)
  })
})
