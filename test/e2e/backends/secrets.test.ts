import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { EventClient } from '../../support/admin/event-client.ts'
import { OPENAPI } from '../../support/admin/openapi.ts'
import { WebhookReceiver } from '../../support/admin/webhook-receiver.ts'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { bucketRule, budgetRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { named, routedBundle, routing, saying } from '../../support/proxy/routed.ts'
import { type Answer, ask, type Fields } from '../../support/service/http.ts'
import { scratchDirectory } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { OtlpReceiver } from '../../support/traces/otlp-receiver.ts'
import { closeTracesPatiently } from '../../support/traces/patient-traces.ts'
import { callerSpan } from '../../support/traces/trace-contexts.ts'
import { until } from '../../support/until.ts'

const CANARY = 'sk-canary-7418529637'
const DEBUG_SECRET = 'a debug secret of the test, long enough'
const CHAT = '{"model":"m","messages":[],"max_tokens":5}'
/** Every failure after which another backend is tried. */
const RETRY = { on: ['connect', 'timeout', 401, 429, '5xx'], attempts: 2 }

/** What the admin API shows without being asked for anything in particular, and of the second bundle. */
const PAGES = Object.entries(OPENAPI.paths)
  .filter(([path, { get }]) => get !== undefined && path !== '/events')
  .map(([path]) => path.slice(1).replace('bundles/{id}', 'bundles/2'))
  .filter((path) => !path.includes('{'))
  .concat('bundles/2?credentials=clear')

describe('secrets that go to backends', () => {
  test('are in no log, metric, event, decision, trace, response, page, explanation or file, whatever becomes of the requests', async () => {
    closeTracesPatiently()
    const [receiver, webhook] = [await OtlpReceiver.start(), await WebhookReceiver.start()]
    const backends = {
      good: await named('good'),
      down: await HttpBackend.start(saying('down', 503)),
      busy: await HttpBackend.start(saying('busy', 429, { 'Retry-After': '1' })),
      denied: await HttpBackend.start(saying('denied', 401)),
      silent: await HttpBackend.start(() => {}),
      broken: await HttpBackend.start((_req, res) => void res.destroy()),
      garbled: await RawBackend.saying('nonsense\r\n\r\n'),
      nowhere: { url: 'http://127.0.0.1:1' },
    }
    const names = Object.keys(backends)
    const headers = { authorization: 'Bearer {FROM_FILE}', 'x-other': 'a {FROM_VARIABLE} b' }
    const more = Object.fromEntries(names.map((name) => [name, { headers, ...(name === 'silent' && { headers_timeout_seconds: 0.1 }) }]))
    const routes = names.flatMap((name) => [
      { selector: { pathPrefix: `/alone/${name}` }, backends: [{ name }] },
      { selector: { pathPrefix: `/${name}` }, backends: [{ name }], fallback: [{ name: 'good', model: 'other' }], retry: RETRY },
    ])
    const policies = [
      policy('p', {
        rules: [budgetRule('money', ['header:authorization'], { budget: 100, prices: 'main' }), bucketRule('r', ['ip:address'], 60, 0.001)],
      }),
    ]
    const prices = { main: { '*': { input: 1, output: 1 } } }
    const [directory, secrets] = [await scratchDirectory(), await scratchDirectory()]
    await writeFile(join(secrets, 'FROM_FILE'), `${CANARY}-file\n`)
    const edge = await routing(backends, routes, {
      more,
      policies,
      prices,
      env: {
        ...ADMIN_ENV,
        ...receiver.env,
        ...webhook.env,
        EDGE_LOG_LEVEL: 'debug',
        EDGE_STATE_FILE: join(directory, 'state'),
        EDGE_DECISION_LOG: join(directory, 'decisions'),
        EDGE_DEBUG_SESSION_SECRET: DEBUG_SECRET,
        EDGE_SECRETS_DIR: secrets,
        EDGE_SECRET_FROM_VARIABLE: `${CANARY}-variable`,
      },
    })
    const stream = await EventClient.open(edge.adminPort)
    const login = await ask(edge.adminPort, 'POST', '/v1/debug/session', [['X-Edge-Debug-Secret', DEBUG_SECRET]])
    const cookie = login.headers['set-cookie']!.split(';')[0]!
    const fields: Fields = [
      ['Content-Type', 'application/json'],
      ['Authorization', "Bearer the client's own"],
      ['traceparent', callerSpan().traceparent],
    ]
    const answers: Answer[] = []
    const askAll = async (): Promise<void> => {
      for (const name of names) {
        answers.push(await ask(edge.port, 'POST', `/${name}/v1/chat/completions`, [...fields, ['Cookie', cookie]], CHAT))
        answers.push(await ask(edge.port, 'POST', `/alone/${name}/v1/chat/completions`, fields, CHAT))
        answers.push(await ask(edge.port, 'POST', `/${name}/v1/chat/completions`, fields, 'not json'))
      }
    }
    expect(edge.logged('bundle_refused')).toEqual([])
    await askAll()
    await replaceFile(join(secrets, 'FROM_FILE'), `${CANARY}-next`)
    await untilLogged(edge, 'secret_loaded', 3)
    await askAll()
    await edge.publish({ ...routedBundle(2, backends, routes.slice(2), more, policies), prices })
    await askAll()
    while (answers.at(-1)!.status !== 429) answers.push(await ask(edge.port, 'POST', '/down/v1/chat/completions', fields, CHAT))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 400, 401, 404, 429, 502, 503, 504]))
    const debugged = answers.filter(({ headers }) => Object.keys(headers).some((name) => name.startsWith('x-edge-debug-')))
    expect(debugged.length).toBeGreaterThan(0)

    const pages: unknown[] = []
    for (const path of PAGES) pages.push([path, (await askAdmin(edge.adminPort, 'GET', path)).json])
    for (const name of names) {
      const body = { method: 'POST', uri: `/${name}/v1/chat/completions`, headers: { 'content-type': 'application/json' } }
      pages.push((await askAdmin(edge.adminPort, 'POST', 'explain', { body })).json)
    }
    const metrics = await ask(edge.adminPort, 'GET', '/metrics', [['Authorization', `Bearer ${ADMIN_TOKEN}`]])
    await stream.untilNamed('bundle_applied')
    await until(() => webhook.events.some(({ event }) => event === 'bundle_applied'))
    await edge.service.stop('test')
    await until(() => stream.isClosed)
    const files = await Promise.all((await readdir(directory)).map((name) => readFile(join(directory, name), 'latin1')))
    const traces = receiver.exports.map(({ body }) => body)
    expect([PAGES.length >= 15, files.length >= 2, traces.length > 0]).toEqual([true, true, true])
    const said = JSON.stringify([edge.log, answers, pages, metrics.body, stream.events, stream.others, webhook.batches, files, traces])
    expect(said).toContain('Bearer {FROM_FILE}')
    expect(said).not.toContain('canary')

    const got = backends.good.seen.map(({ headers: { authorization, 'x-other': other } }) => [authorization, other])
    expect(new Set(got.map(String))).toEqual(new Set(['file', 'next'].map((value) => `Bearer ${CANARY}-${value},a ${CANARY}-variable b`)))
    for (const { seen } of [backends.down, backends.busy, backends.denied, backends.silent, backends.broken])
      expect(JSON.stringify(seen.map(({ headers }) => headers))).toContain(CANARY)
    expect(backends.garbled.received).toContain(CANARY)
  })
})
