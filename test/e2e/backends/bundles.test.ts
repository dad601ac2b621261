import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { command, type Said } from '../../support/service/command.ts'
import { finished, running, scratchDirectory } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

const SECRET = 'sk-canary-7418529637'

function routedTo(url: string, version = 1, headers: object = {}): object {
  return { ...bundle(version), backends: { a: { url, headers } }, routes: [{ backends: [{ name: 'a' }] }] }
}

test('a bundle with a backend outside of EDGE_BACKEND_HOSTS is refused, and the one before stays', async () => {
  const edge = await running({ bundle: routedTo('https://api.openai.test/v1'), env: { EDGE_BACKEND_HOSTS: '*.openai.test' } })
  expect(edge.logged('bundle_applied')).toMatchObject([{ version: '1' }])
  await replaceFile(edge.bundlePath, JSON.stringify(routedTo('https://openai.test:8443', 2)))
  expect((await untilLogged(edge, 'bundle_refused'))[0]).toMatchObject({
    problems: ['backends.a.url: expected a host that EDGE_BACKEND_HOSTS allows; add openai.test:8443 to it'],
    active_version: '1',
  })
})

test.each([
  'http://169.254.169.254',
  'https://[fe80::1]',
  'https://[::ffff:169.254.169.254]',
  'https://0251.0xfe.43518',
  'https://[64:ff9b::a9fe:a9fe]',
  'https://[fd00:ec2::254]',
  'http://168.63.129.16',
])('a backend at %s is refused, even if EDGE_BACKEND_HOSTS allows it', async (url) => {
  const hosts = `127.0.0.1:9,${new URL(url).host}`
  const edge = await running({ bundle: routedTo('http://127.0.0.1:9'), env: { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_HOSTS: hosts } })
  await replaceFile(edge.bundlePath, JSON.stringify(routedTo(url, 2)))
  expect((await untilLogged(edge, 'bundle_refused'))[0]).toMatchObject({
    problems: [expect.stringContaining('backends.a.url: expected a host other than a link-local address')],
    active_version: '1',
  })
})

test('by default backends may be at the origin of EDGE_BACKEND_URL alone', async () => {
  const env = { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: 'http://127.0.0.1:9' }
  const edge = await running({ bundle: routedTo('http://127.0.0.1:9/base'), env })
  expect(edge.logged('bundle_applied')).toHaveLength(1)
  expect(edge.logged('routes_unused')).toEqual([])
  await replaceFile(edge.bundlePath, JSON.stringify(routedTo('http://127.0.0.1:10', 2)))
  expect((await untilLogged(edge, 'bundle_refused'))[0]).toMatchObject({
    problems: ['backends.a.url: expected a host that EDGE_BACKEND_HOSTS allows; add 127.0.0.1:10 to it'],
  })
})

test('decision_service says that routes have no effect', async () => {
  const env = { EDGE_BACKEND_HOSTS: 'a.example' }
  expect((await running({ bundle: routedTo('https://a.example'), env })).logged('routes_unused')).toMatchObject([{ routes: 1 }])
  expect((await running({ bundle: bundle(1) })).logged('routes_unused')).toEqual([])
})

test('validate needs no secret, checks hosts where it knows them, and says what has no effect', async () => {
  const file = join(await scratchDirectory(), 'bundle.json')
  await writeFile(file, JSON.stringify(routedTo('https://a.example', 1, { authorization: 'Bearer {NOWHERE}' })))
  const ok = `${file}: ok, version 1, 0 policies\n`
  expect(await command('validate', file)).toEqual({ status: 0, stdout: ok, stderr: '' })
  expect(await command('validate', '--mode', 'decision_service', file)).toEqual({
    status: 0,
    stdout: ok,
    stderr: `${file}: note: in decision_service routes have no effect, because it forwards nothing\n`,
  })
  expect(await finished(['validate', file], { EDGE_BACKEND_HOSTS: 'a.example' })).toMatchObject({ status: 0, stdout: ok })
  const { status, stderr } = await finished(['validate', file], { EDGE_BACKEND_URL: 'https://b.example' })
  expect([status, stderr]).toEqual([
    1,
    `${file}:1:52: error: backends.a.url: expected a host that EDGE_BACKEND_HOSTS allows; add a.example to it\n`,
  ])
})

test('validate finds key sets that may not be fetched: anywhere, or from the hosts that it knows', async () => {
  const file = join(await scratchDirectory(), 'bundle.json')
  const keySetAt = async (url: string): Promise<Said> => {
    const jwt = [{ name: 'idp', issuer: 'https://idp.test', audiences: ['edge'], jwks_url: url }]
    await writeFile(file, JSON.stringify({ ...bundle(1), callers: { mode: 'enforce', jwt } }))
    return command('validate', file)
  }
  const [path, ok] = [': error: callers.jwt[0].jwks_url: expected ', { status: 0, stderr: '' }]
  expect((await keySetAt('http://idp.test/keys')).stderr).toContain(`${path}https://, because http:// is allowed to loopback addresses`)
  expect((await keySetAt('https://169.254.169.254/keys')).stderr).toContain(`${path}a host other than a link-local address`)
  expect(await keySetAt('https://idp.test/keys')).toMatchObject(ok)
  vi.stubEnv('EDGE_BACKEND_HOSTS', 'a.example,idp.test')
  onTestFinished(() => void vi.unstubAllEnvs())
  expect(await keySetAt('https://idp.test/keys')).toMatchObject(ok)
  const { status, stderr } = await keySetAt('https://login.test/keys')
  expect([status, stderr]).toEqual([1, expect.stringContaining(`${path}a host that EDGE_BACKEND_HOSTS allows; add login.test to it`)])
})

test('edge test and edge replay need neither secrets nor allowed hosts', async () => {
  const directory = await scratchDirectory()
  const [file, cases, log] = ['bundle.json', 'cases.yaml', 'requests.jsonl'].map((name) => join(directory, name)) as [
    string,
    string,
    string,
  ]
  await writeFile(file, JSON.stringify(routedTo('https://a.example', 1, { authorization: 'Bearer {NOWHERE}' })))
  await writeFile(cases, '- name: passes\n  steps:\n    - request: { method: GET, uri: / }\n      expect: { status: 200 }\n')
  await writeFile(log, '{"time":"2026-01-01T00:00:00Z","method":"GET","uri":"/"}\n')
  expect(await command('test', file, cases)).toMatchObject({ status: 0 })
  expect(await command('replay', '--bundle', file, log)).toMatchObject({ status: 0 })
})

test('a credential in a backend is shown as a digest, and its changes are hidden', async () => {
  const env = { ...ADMIN_ENV, EDGE_BACKEND_HOSTS: 'a.example' }
  const edge = await running({ bundle: routedTo('https://a.example', 1, { 'x-api-key': `${SECRET}1`, 'x-region': 'eu' }), env })
  await edge.publish(routedTo('https://a.example', 2, { 'x-api-key': `${SECRET}2`, 'x-region': 'us' }))
  const { json: text } = await askAdmin(edge.adminPort, 'GET', 'bundles/2')
  expect(text).toMatchObject({ hidden: 1, has_credentials: true })
  const { json: compared } = await askAdmin(edge.adminPort, 'GET', 'bundles/2/changes')
  expect(compared.changes).toMatchObject({
    routing: true,
    routing_changes: [
      { field: 'backends.a.headers.x-api-key', before: 'a hidden text', after: 'a hidden text' },
      { field: 'backends.a.headers.x-region', before: 'eu', after: 'us' },
    ],
  })
  const { json: list } = await askAdmin(edge.adminPort, 'GET', 'bundles')
  expect(list.bundles[0]).toMatchObject({ changes: { routing: true, callers: false } })
  const shown = await finished(['bundle', '2'], { EDGE_ADMIN_URL: `http://127.0.0.1:${edge.adminPort}`, EDGE_ADMIN_TOKEN: ADMIN_TOKEN })
  expect(shown.stdout).toContain('backends or routes changed')
  expect(shown.stdout).toContain('    backends.a.headers.x-region: eu → us\n')
  for (const given of [JSON.stringify([text, compared, list, edge.log]), shown.stdout, shown.stderr]) expect(given).not.toContain(SECRET)
})
