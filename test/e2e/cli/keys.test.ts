import { createHash } from 'node:crypto'
import { truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { command, type Said } from '../../support/service/command.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { newFolder } from '../../support/state/state.ts'

const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-k'], 10)] }))
const DIGEST = 'OdNBCRuaGBq5GeJvrR9vdcpFlK9NrfqMrpmw2U0rSxk'
const OTHER_DIGEST = '4xqWE5HNB6TfzugdBNQwfgu_-mlxlRrTfqGFHEAcU_M'

afterEach(() => {
  vi.unstubAllEnvs()
})

async function service(env: Readonly<Record<string, string>> = {}, clock?: ManualClock): Promise<Edge> {
  const edge = await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, ...env }, ...(clock && { clock }) })
  vi.stubEnv('EDGE_ADMIN_URL', `http://127.0.0.1:${edge.adminPort}`)
  vi.stubEnv('EDGE_ADMIN_TOKEN', ADMIN_TOKEN)
  vi.stubEnv('USER', 'ada')
  return edge
}

const keys = (...args: string[]): Promise<Said> => command('keys', ...args)
const listed = async (edge: Edge) =>
  (await askAdmin(edge.adminPort, 'GET', 'keys')).json.keys as { id: string; status: string; labels: object }[]

describe('edge keys', () => {
  test('issues a key, shows it once, and lists, shows, changes and revokes it', async () => {
    const edge = await service()
    const created = await keys('create', 'team=search', 'user=ada', '--reason', 'new', '--expires', '30d')
    expect(created).toMatchObject({ status: 0, stderr: '' })
    expect(created.stdout).toMatch(/\nedge_[\w-]{43}\n/)
    const { id } = (await listed(edge))[0]!
    expect((await keys('list', 'team=search')).stdout).toMatch(
      new RegExp(`ID +STATUS +EXPIRES +LABELS\\n +${id} +active +\\S+ +team=search user=ada\\n`),
    )
    expect((await keys('list', 'team=other')).stdout).toBe('No keys.\n')
    expect((await keys('show', id)).stdout).not.toContain('edge_')
    // The key of somebody who has found it: its id follows from it.
    const key = /^edge_[\w-]{43}$/m.exec(created.stdout)![0]
    expect((await keys('show', key)).stdout).toBe((await keys('show', id)).stdout)
    expect((await keys('change', id, 'team=ads', '--expires', 'never', '--reason', 'moved')).stdout).toMatch(
      /labels +team=ads\n[\s\S]*expires +never/,
    )
    expect((await keys('revoke', id, '--reason', 'over')).stdout).toBe('Revoked.\n')
    expect((await keys('show', id)).stdout).toMatch(/status +revoked[\s\S]*revoked +ada, \S+: over/)
    expect((await command('changes')).stdout).toContain(`key ${id} of team=ads revoked`)
    expect(JSON.parse((await keys('list', '--json')).stdout).keys).toHaveLength(1)
  })

  test('exports digests as lines that are imported anywhere, again and again', async () => {
    await service()
    for (const user of ['ada', 'eve', 'bob']) await keys('create', `user=${user}`, '--reason', 'new')
    const exported = await keys('export')
    expect(exported.stdout.trim().split('\n')).toHaveLength(3)
    expect(exported.stdout).not.toContain('edge_')
    const file = join(await newFolder(), 'keys.jsonl')
    await writeFile(file, exported.stdout)
    expect((await keys('import', file, '--reason', 'git')).stdout).toBe('Changes: 0\n')

    const other = await service()
    const dry = await keys('import', file, '--dry-run')
    expect(dry.stdout).toMatch(/^(\+ \w{12} user=\w+\n){3}Nothing was changed. Differences: 3\n$/)
    expect(await listed(other)).toEqual([])
    expect((await keys('import', file, '--reason', 'git')).stdout).toContain('Changes: 3\n')
    expect((await keys('export')).stdout).toBe(exported.stdout)
    expect((await keys('import', file, '--reason', 'git')).stdout).toBe('Changes: 0\n')
  })

  test('imports what changed, and revokes what is not in the file only with --prune', async () => {
    const edge = await service()
    const file = join(await newFolder(), 'keys.jsonl')
    await writeFile(file, `${JSON.stringify({ digest: DIGEST, labels: { team: 'a' } })}\n`)
    await keys('import', file, '--reason', 'git')
    await keys('create', 'team=b', '--reason', 'by hand')
    await writeFile(file, `\n${JSON.stringify({ digest: DIGEST, labels: { team: 'c' }, expires_at: '2100-01-01T00:00:00Z' })}\n`)
    const imported = await keys('import', file, '--reason', 'git')
    expect(imported.stdout).toMatch(
      /^~ \w{12} team=a -> team=c, expires never -> 2100-01-01T00:00:00.000Z\nChanges: 1\nKeys that are not in the file: 1; --prune revokes them\n$/,
    )
    expect((await keys('import', file, '--prune', '--reason', 'git')).stdout).toMatch(/^- \w{12} team=b\nChanges: 1\n$/)
    expect((await listed(edge)).map(({ status, labels }) => [status, labels])).toEqual(
      expect.arrayContaining([
        ['active', { team: 'c' }],
        ['revoked', { team: 'b' }],
      ]),
    )
    const [kept] = (await listed(edge)).filter(({ status }) => status === 'active')
    await keys('revoke', kept!.id, '--reason', 'leaked')
    expect(await keys('import', file, '--reason', 'git')).toMatchObject({ status: 1, stdout: 'Changes: 0\n' })
  })

  test('refuses the lines of revoked keys, imports the others, and fails, also long after the keys were revoked', async () => {
    const EDGE_KEYS_FILE = join(await newFolder(), 'keys')
    const clock = new ManualClock()
    const file = join(await newFolder(), 'keys.jsonl')
    const line = (digest: string): string => `${JSON.stringify({ digest, labels: { team: 'a' } })}\n`
    const first = await service({ EDGE_KEYS_FILE }, clock)
    await writeFile(file, line(DIGEST))
    await keys('import', file, '--reason', 'git')
    const { id } = (await listed(first))[0]!
    await keys('revoke', id, '--reason', 'leaked')
    await writeFile(file, `\n${line(DIGEST)}${line(OTHER_DIGEST)}`)
    const dry = await keys('import', file, '--dry-run')
    const total = `edge keys: ${file}: lines of revoked keys, which stay revoked: 1`
    const lately = `line 2: key ${id} was revoked at 2026-01-15T12:00:00.000Z by ada (leaked); remove the line\n${total}`
    expect(dry).toMatchObject({ status: 1, stderr: expect.stringContaining(lately) })
    expect(dry.stdout).toMatch(/^\+ \w{12} team=a\nNothing was changed. Differences: 1\n$/)
    await first.stop()
    clock.advance(31 * 86_400_000)
    const edge = await service({ EDGE_KEYS_FILE }, clock)
    for (const args of [['--dry-run'], ['--reason', 'git']]) {
      const { status, stdout, stderr } = await keys('import', file, ...args)
      expect([status, stdout]).toEqual([1, expect.stringMatching(/^\+ (?!0{12})\w{12} team=a\n.*: 1\n$/s)])
      expect(stderr).toContain(`line 2: key ${id} was revoked more than 30 days ago; remove the line\n${total}`)
      expect(stdout).not.toContain(id)
    }
    expect(await listed(edge)).toMatchObject([{ status: 'active', labels: { team: 'a' } }])
    expect((await listed(edge))[0]!.id).not.toBe(id)
    await writeFile(file, line(OTHER_DIGEST))
    expect(await keys('import', file, '--reason', 'git')).toMatchObject({ status: 0, stdout: 'Changes: 0\n' })
    expect(await keys('acknowledge', '--reason', 'compared')).toMatchObject({ status: 0, stdout: 'Acknowledged.\n' })
  })

  test('goes on past keys of the file that have expired, and revokes those that have not expired here', async () => {
    const edge = await service()
    const file = join(await newFolder(), 'keys.jsonl')
    const line = (digest: string, expires_at?: string): string => `${JSON.stringify({ digest, labels: { team: 'a' }, expires_at })}\n`
    await writeFile(file, line(DIGEST, '2020-01-01T00:00:00Z') + line(OTHER_DIGEST))
    const summary = 'Keys of the file that have expired: 1; their lines can be removed\n'
    expect((await keys('import', file, '--dry-run')).stdout).toMatch(/^\+ \w{12} team=a\nNothing was changed. Differences: 1\n/)
    expect(await keys('import', file, '--reason', 'git')).toMatchObject({
      status: 0,
      stdout: expect.stringContaining(`Changes: 1\n${summary}`),
    })
    expect((await listed(edge)).map(({ status }) => status)).toEqual(['active'])
    await writeFile(file, line(OTHER_DIGEST, '2020-01-01T00:00:00Z'))
    expect((await keys('import', file, '--reason', 'git')).stdout).toMatch(/^- \w{12} team=a\nChanges: 1\n/)
    expect((await listed(edge)).map(({ status }) => status)).toEqual(['revoked'])
  })

  test('brings an export back as the same lines, whatever its labels are', async () => {
    await service()
    const labels = [
      { constructor: 'x', toString: 'y', 10: 'ten', 9: 'nine' },
      { user: 'Zoë 李 \u{1f642} "\\ =', team: 'ﬀ' },
      Object.fromEntries(Array.from({ length: 32 }, (_, i) => [`${'n'.repeat(62)}${i}`, '"'.repeat(256)])),
      { a: 'x' },
    ]
    const file = join(await newFolder(), 'keys.jsonl')
    const lines = labels.map((each, i) => {
      const digest = createHash('sha256').update(String(i)).digest('base64url')
      return JSON.stringify({ digest, labels: each, ...(i === 3 && { expires_at: '2100-01-01T01:00:00.5+01:00' }) })
    })
    await writeFile(file, `${lines.join('\r\n')}\r\n`)
    expect(await keys('import', file, '--reason', 'git')).toMatchObject({ status: 0 })
    const exported = await keys('export')
    const read = exported.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { labels: object; expires_at?: string })
    expect(read.map((each) => each.labels)).toEqual(expect.arrayContaining(labels))
    expect(read.find((each) => each.expires_at)!.expires_at).toBe('2100-01-01T00:00:00.500Z')
    await writeFile(file, exported.stdout)
    await service()
    await keys('import', file, '--reason', 'git')
    expect((await keys('export')).stdout).toBe(exported.stdout)
  })

  test('reads no more than a bounded part of a line', async () => {
    const edge = await service()
    const folder = await newFolder()
    const file = join(folder, 'keys.jsonl')
    await writeFile(file, `${JSON.stringify({ digest: DIGEST, labels: { a: 'x' } })}\n`)
    // A gigabyte of zeros, which takes no room on the disk.
    await truncate(file, 2 ** 30)
    for (const [name, number] of [
      [file, 2],
      ['/dev/zero', 1],
    ] as const) {
      const { status, stderr } = await keys('import', name, '--reason', 'git')
      expect([status, stderr]).toEqual([
        1,
        expect.stringContaining(`${name}, line ${number}: it has more than 131072 bytes. Nothing was changed`),
      ])
    }
    await writeFile(file, Buffer.from(JSON.stringify({ digest: DIGEST, labels: { a: 'caf\u00e9' } }), 'latin1'))
    expect((await keys('import', file, '--reason', 'git')).stderr).toContain('line 1: it is not UTF-8. Nothing was changed')
    expect(await listed(edge)).toEqual([])
  })

  test.each<[string, string]>([
    [`{"digest":"${DIGEST}","labels":{"a":"x"},"__proto__":{}}`, 'line 1: unknown member "__proto__"'],
    [`{"digest":"${DIGEST}","labels":{"__proto__":"x"}}`, 'line 1: labels: expected a name'],
    [`{"digest":"${DIGEST}","labels":{"a":"\\u0000"}}`, 'line 1: labels.a: expected printable characters only'],
    [`{"digest":"edge_${'A'.repeat(43)}","labels":{"a":"x"}}`, 'line 1: digest: expected the SHA-256 of a key'],
    [`{"digest":"${DIGEST.slice(0, -1)}l","labels":{"a":"x"}}`, 'line 1: digest: expected the SHA-256 of a key'],
    [`{"digest":"${DIGEST}","labels":{"a":"x"},"expires_at":"2026-02-31T00:00:00Z"}`, 'line 1: expires_at: expected a time'],
    [`{"digest":"${DIGEST}","labels":{"a":"x"},"expires_at":4e12}`, 'line 1: expires_at: expected a time'],
    ['{"digest":1}', 'line 1: digest: expected the SHA-256 of a key'],
    ['nonsense', 'line 1: expected JSON'],
    ['[]', 'line 1: expected an object'],
    [`{"digest":"${DIGEST}","labels":{}}`, 'line 1: labels: expected at least one label'],
    [`{"digest":"${DIGEST}","labels":{"a":"x"},"id":"0123456789ab"}`, 'line 1: id: expected c51482814dec'],
    [`{"digest":"${DIGEST}","labels":{"a":"x"},"key":"x"}`, 'line 1: unknown member "key"'],
    [`{"digest":"${DIGEST}","labels":{"a":"x"},"expires_at":"soon"}`, 'line 1: expires_at: expected a time'],
    [`{"digest":"${DIGEST}","labels":{"a":"x"}}\n{"digest":"${DIGEST}","labels":{"a":"y"}}`, 'line 2: key c51482814dec is there twice'],
  ])('imports nothing of a file with a line that it cannot use: %s', async (text, sentence) => {
    const edge = await service()
    const file = join(await newFolder(), 'keys.jsonl')
    await writeFile(file, text)
    const { status, stderr } = await keys('import', file, '--reason', 'git')
    expect([status, stderr]).toEqual([1, expect.stringContaining(sentence)])
    expect(await listed(edge)).toEqual([])
  })

  test.each<[string, string]>([
    ['', 'expected one of create, list, show, change, revoke, import, export, acknowledge'],
    ['delete', 'got "delete"'],
    ['create --reason x', 'create: expected LABEL=VALUE'],
    ['create team --reason x', 'expected LABEL=VALUE, such as team=search, got "team"'],
    ['create a=b a=c --reason x', 'label a is given twice'],
    ['create a=b', 'expected --reason TEXT'],
    ['list --reason x', 'list: unexpected --reason'],
    ['show', 'show: expected the id of a key'],
    ['show nonsense', 'twelve hexadecimal digits'],
    ['revoke edge_secret --reason x', 'not the key itself, whose id is 6a73600c01db'],
    ['change 0123456789ab --reason x', 'change: expected LABEL=VALUE'],
    ['import --reason x', 'import: expected FILE'],
    ['import /no/such/file --reason x', 'cannot read /no/such/file: there is no such file'],
    ['export a=b', 'export: unexpected a=b'],
    ['show 0123456789ab', 'there is no key'],
  ])('says what is wrong with %j', async (line, sentence) => {
    await service()
    const { status, stderr, stdout } = await keys(...line.split(' ').filter((word) => word !== ''))
    expect([status, stderr, stdout]).toEqual([1, expect.stringContaining(sentence), ''])
    expect(stderr).not.toContain('edge_secret')
  })
})
