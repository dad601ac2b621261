import { expect, onTestFinished, test, vi } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { KeySetServer } from '../../support/callers/followed-key-sets.ts'
import { signedToken, testKey } from '../../support/callers/test-issuer.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import type { EdgeOptions } from '../../support/service/edge.ts'
import { type Answer, ask, type Fields } from '../../support/service/http.ts'
import { running } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

const CLAIMS = { iss: 'https://login.example.com', aud: 'api', sub: 'ada', exp: 4_000_000_000 }
const UNKNOWN: Fields = [['Authorization', `Bearer ${signedToken('ES256', testKey('P-256', 'unknown'), CLAIMS)}`]]

test('while an issuer is slow, a question of a gateway waits for keys for half a second: gateways give up after one', async () => {
  const { options, slowDown } = await issuer()
  const edge = await running(options)
  await untilLogged(edge, 'key_set_loaded')
  slowDown()
  const waits = timers()
  expect(reason(await edge.decide({ fields: UNKNOWN }))).toEqual([401, 'caller_keys_unavailable'])
  expect(waits()).toContain(500)
})

test('and a request of the proxy for two seconds', async () => {
  const { options, slowDown } = await issuer()
  const edge = await proxying(await HttpBackend.start(), options)
  await untilLogged(edge, 'key_set_loaded')
  slowDown()
  const waits = timers()
  expect(reason(await ask(edge.port, 'GET', '/', UNKNOWN))).toEqual([503, 'caller_keys_unavailable'])
  expect(waits()).toContain(2000)
})

/** An issuer whose key set holds back its responses when told to. */
async function issuer(): Promise<{ options: EdgeOptions; slowDown: () => void }> {
  const server = await KeySetServer.start('a')
  const entry = { name: 'login', issuer: CLAIMS.iss, audiences: ['api'], jwks_url: server.url }
  return {
    options: {
      bundle: { ...bundle(1), callers: { mode: 'enforce', jwt: [entry] } },
      env: { EDGE_BACKEND_HOSTS: new URL(server.url).host },
    },
    slowDown: () => onTestFinished(server.hold('a')),
  }
}

/** Returns the times of all timers that are set from now on. */
function timers(): () => unknown[] {
  const spy = vi.spyOn(globalThis, 'setTimeout')
  onTestFinished(() => spy.mockRestore())
  return () => spy.mock.calls.map(([, ms]) => ms)
}

function reason({ status, headers }: Answer): [number, string | undefined] {
  return [status, headers['x-edge-reason']]
}
