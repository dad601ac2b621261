import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { readHere } from '../../../src/bundle/bundle-intake.ts'
import type { ReadBundle } from '../../../src/bundle/bundle-reader.ts'
import type { WorkerHost } from '../../../src/runtime/threads/worker-host.ts'
import { ADMIN_ENV, ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { replaceFile, verdictAfter } from '../../support/bundles/bundle-file.ts'
import { BundleServer } from '../../support/bundles/bundle-server.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { ListeningHost } from '../../support/service/listening-host.ts'
import { metric } from '../../support/service/metrics.ts'
import { scratchDirectory } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const CANARY = 'sk-canary-7418529637'

/** Bundles name the secrets that `secretsOf` has for their version. */
let secretsOf: Readonly<Record<number, readonly string[]>>

const readBundle: ReadBundle = async (...given) => {
  const read = await readHere(...given)
  if (!read.ok) return read
  const names = secretsOf[Number(read.bundle.version)] ?? []
  return { ...read, secretUses: names.map((name) => ({ name, path: `backends.b.headers.${name}` })) }
}

interface Started {
  readonly edge: Edge
  readonly host: ListeningHost
  readonly directory: string
}

async function started(version: number, env: Readonly<Record<string, string>> = {}): Promise<Started> {
  const directory = await scratchDirectory({ onTestFinished })
  const backend = await HttpBackend.start()
  let host: ListeningHost | undefined
  const aroundHost = (inner: WorkerHost): WorkerHost => {
    host = new ListeningHost(inner)
    return host
  }
  const edge = await proxying(backend, {
    bundle: bundle(version),
    env: { ...ADMIN_ENV, EDGE_LOG_LEVEL: 'debug', EDGE_SECRETS_DIR: directory, ...env },
    readBundle,
    aroundHost,
  })
  return { edge, host: host!, directory }
}

function secretsSent({ sent }: ListeningHost): unknown[] {
  return sent.flatMap((message) => (message.type === 'secrets' ? [[...message.secrets]] : []))
}

test('the secrets of a bundle reach the workers before it is active, and again when a file changes', async () => {
  secretsOf = { 2: ['FROM_FILE', 'FROM_VARIABLE'] }
  const { edge, host, directory } = await started(1, { EDGE_SECRET_FROM_VARIABLE: 'v' })
  expect(secretsSent(host)).toEqual([])
  await replaceFile(join(directory, 'FROM_FILE'), 'f\n')
  await edge.publish(bundle(2))
  const types = host.sent.map(({ type }) => type)
  expect(types.indexOf('secrets')).toBeLessThan(types.lastIndexOf('prepare'))
  await replaceFile(join(directory, 'FROM_FILE'), 'f2\n')
  await untilLogged(edge, 'secret_loaded', 3)
  expect(secretsSent(host)).toEqual([
    [
      ['FROM_FILE', 'f'],
      ['FROM_VARIABLE', 'v'],
    ],
    [['FROM_FILE', 'f2']],
  ])
  expect(await ask(edge.port, 'GET', '/')).toMatchObject({ status: 200 })
})

test('a bundle with a missing secret is refused, the last good one stays, and it is taken as soon as the file is there', async () => {
  secretsOf = { 2: ['OPENAI_A', 'OPENAI_B'] }
  const { edge, host, directory } = await started(1, { EDGE_SECRET_OPENAI_B: 'b' })
  await edge.publish(bundle(2))
  const path = join(directory, 'OPENAI_A')
  expect((await untilLogged(edge, 'bundle_refused'))[0]).toMatchObject({
    problems: [
      `backends.b.headers.OPENAI_A: the secret OPENAI_A is missing: create the file ${path}, or set EDGE_SECRET_OPENAI_A and restart`,
    ],
  })
  expect(await askAdmin(edge.adminPort, 'GET', 'status')).toMatchObject({ json: { bundle: { version: '1' } } })
  expect(secretsSent(host)).toEqual([])
  expect(await verdictAfter(edge, () => replaceFile(path, 'a'))).toMatchObject({ event: 'bundle_applied', version: '2' })
})

test('so is a first bundle, and one at a URL', async () => {
  secretsOf = { 1: ['OPENAI_A'] }
  const server = await BundleServer.start({ onTestFinished })
  server.publish(bundle(1))
  const directory = await scratchDirectory({ onTestFinished })
  const env = { EDGE_CONFIG_FILE: '', EDGE_CONFIG_URL: server.url, EDGE_SECRETS_DIR: directory, EDGE_CONFIG_POLL_INTERVAL: '3600' }
  const edge = await proxying(await HttpBackend.start(), { env, readBundle })
  await untilLogged(edge, 'bundle_refused')
  await replaceFile(join(directory, 'OPENAI_A'), 'a')
  await untilLogged(edge, 'bundle_applied')
})

test('decision_service needs no secrets', async () => {
  secretsOf = { 1: ['OPENAI_A'] }
  const edge = await Edge.start({ bundle: bundle(1), readBundle })
  onTestFinished(() => edge.stop())
  await untilLogged(edge, 'bundle_applied')
  expect(edge.logged('bundle_refused')).toEqual([])
})

test('a secret that fails is a problem of the instance until it is good again, and its value is nowhere to be seen', async () => {
  secretsOf = { 2: ['OPENAI_A', 'OPENAI_B'] }
  const { edge, directory } = await started(1, { EDGE_SECRET_OPENAI_B: `${CANARY}-variable` })
  const path = join(directory, 'OPENAI_A')
  await replaceFile(path, `${CANARY}-file`)
  await edge.publish(bundle(2))
  const problems = async (): Promise<readonly { readonly code: string; readonly message: string }[]> =>
    (await askAdmin(edge.adminPort, 'GET', 'status')).json.problems
  expect(await problems()).toEqual([])
  await replaceFile(path, `${CANARY}-file\n${CANARY}-line`)
  await untilLogged(edge, 'secret_failed')
  expect(await problems()).toMatchObject([
    {
      code: 'secret_failed',
      message: `secret not loaded; its last good value stays in use: the secret OPENAI_A cannot be used: the file ${path} contains a line break or another control character`,
    },
  ])
  expect(await metric(edge.adminPort, 'edge_secret_failing{secret="OPENAI_A"}')).toBe(1)
  await rm(path)
  await untilLogged(edge, 'secret_failed', 2)
  await replaceFile(path, `${CANARY}-next`)
  await untilLogged(edge, 'secret_loaded', 3)
  await until(async () => (await problems()).length === 0)
  const pages: unknown[] = [await ask(edge.port, 'GET', '/')]
  for (const page of ['status', 'bundle', 'policies', 'changes', 'top', 'usage'])
    pages.push((await askAdmin(edge.adminPort, 'GET', page)).json)
  pages.push((await askAdmin(edge.adminPort, 'POST', 'explain', { body: { method: 'GET', uri: '/' } })).json)
  pages.push(await ask(edge.adminPort, 'GET', '/metrics', [['Authorization', `Bearer ${ADMIN_TOKEN}`]]))
  await edge.service.stop('test')
  expect(JSON.stringify([edge.log, pages])).not.toContain('canary')
  expect(JSON.stringify(pages)).toContain('edge_secret_failing{secret=')
})
