import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { blockRule, bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { routedBundle, routing } from '../../support/proxy/routed.ts'
import { command } from '../../support/service/command.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

async function validated(given: object, ...flags: string[]): Promise<{ status: number; stderr: string }> {
  const file = join(await scratchDirectory(), 'bundle.json')
  await writeFile(file, JSON.stringify(given))
  return command('validate', ...flags, file)
}

describe('a credential that anybody spends', () => {
  const azure = { headers: { authorization: 'Bearer sk-azure' } }
  const routes = [{ backends: [{ name: 'azure' }] }]

  test('is a warning of edge validate, in reverse_proxy alone', async () => {
    const given = routedBundle(1, { azure: { url: 'https://a.example' } }, routes, { azure })
    const open = 'anybody who reaches this port spends the credential of backend "azure": add callers with mode: enforce'
    expect(await validated(given, '--mode', 'reverse_proxy')).toMatchObject({ status: 0, stderr: expect.stringContaining(open) })
    for (const flags of [[], ['--mode', 'decision_service']]) expect((await validated(given, ...flags)).stderr).not.toContain('anybody')
  })

  test('is logged, and a problem of the status until a bundle without it is active', async () => {
    const backend = await HttpBackend.start()
    const urls = { azure: { url: `http://127.0.0.1:${backend.port}` } }
    const edge = await routing(urls, routes, { more: { azure }, env: ADMIN_ENV })
    const problems = async (): Promise<unknown> => (await askAdmin(edge.adminPort, 'GET', 'status')).json.problems
    const shown = [{ code: 'credentials_open', message: expect.stringContaining('spends the credential of backend "azure"') }]
    expect(await untilLogged(edge, 'credentials_open')).toMatchObject([{ problems: [expect.stringContaining('backends.azure')] }])
    await expect.poll(problems).toMatchObject(shown)
    await edge.publish(routedBundle(2, urls, routes, { azure: { ...azure, open: true } }))
    await expect.poll(problems).toEqual([])
    await edge.publish(routedBundle(3, urls, routes, { azure }))
    await expect.poll(problems).toMatchObject(shown)
    const callers = { mode: 'enforce', keys: {} }
    await edge.publish({ ...routedBundle(4, urls, routes, { azure }), callers })
    await expect.poll(problems).toEqual([])
  })
})

describe('a pattern that never matches', () => {
  const rules = [bucketRule('r', [], 1)]

  test.each<[string, object, string]>([
    [
      'a * inside a path',
      policy('p', { selector: { pathPrefix: '/v1/*/exports' }, rules }),
      'write pathPrefix: "/v1" and, in match of the rules, "path:3": "exports"',
    ],
    [
      'a * behind a path',
      policy('p', { selector: { pathExact: '/v1/*' }, rules }),
      'write "/v1", and pathPrefix covers everything below it',
    ],
    [
      'a * in front of a value',
      policy('p', { rules: [blockRule('b', { 'header:user-agent': '*bot*' })] }),
      'so this never matches: list whole values, or how they begin, such as "example-*"',
    ],
  ])('%s is refused by edge validate, with the way out, and the service starts with a warning', async (_what, given, message) => {
    const { status, stderr } = await validated(bundle(1, given as never))
    expect([status, stderr]).toEqual([1, expect.stringContaining(': error: policies[0].spec.')])
    expect(stderr).toContain(message)
    const edge = await running({ bundle: bundle(1, given as never) })
    expect(await untilLogged(edge, 'bundle_warnings')).toMatchObject([{ warnings: [expect.stringContaining(message)] }])
  })

  test('values of a header that have a * are no such patterns', async () => {
    const given = bundle(1, policy('p', { rules: [blockRule('b', { 'header:accept': ['*/*', '*', 'text/*'] })] }))
    expect((await validated(given)).status).toBe(0)
  })
})
