import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Clock } from '../../../src/time/clock.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { jwkOf, keySetText, signedToken, testKey } from '../../support/callers/test-issuer.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { sized } from '../../support/run/property-runs.ts'
import type { Edge } from '../../support/service/edge.ts'
import type { Answer, Fields } from '../../support/service/http.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const RULES = bundle(1, policy('p', { rules: [bucketRule('team', ['caller:team'], 1_000_000, 1)] }))
/** Of all keys, those on this curve take longest: with them a few clients can flood a worker. */
const KEY = testKey('P-521')
const ENTRY = {
  name: 'idp',
  issuer: 'https://idp.example/',
  audiences: ['edge'],
  jwks_file: 'idp.json',
  labels: { team: { claim: 'team' } },
}
const FLOODER = '198.51.100.1'
const OTHERS = sized(4, 20)

/** Time passes only while this process computes: what is a flood on an idle machine is one on a busy machine too. */
class CpuClock implements Clock {
  nowMs(): number {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1000
  }

  wallMs(): number {
    return Date.now()
  }
}

test.each(['decision_service', 'reverse_proxy'])(
  'in %s, new callers of other addresses are known while one address sends bad tokens without end',
  async (mode) => {
    const directory = await scratchDirectory()
    await writeFile(join(directory, ENTRY.jwks_file), keySetText(jwkOf(KEY)))
    const isProxy = mode === 'reverse_proxy'
    const options = {
      bundle: { ...RULES, callers: { mode: 'enforce', jwt: [ENTRY] } },
      env: { EDGE_SECRETS_DIR: directory, EDGE_TRUSTED_PROXIES: 'loopback' },
      clock: new CpuClock(),
    }
    const edge: Edge = isProxy ? await proxying(await HttpBackend.start(), options) : await running(options)
    const askAs = (address: string, token: string): Promise<Answer> => {
      const fields: Fields = [
        ['X-Forwarded-For', address],
        ['Authorization', `Bearer ${token}`],
      ]
      return isProxy ? edge.get('/', fields) : edge.decide({ fields })
    }
    const good = tokenOf('mallory', 'blue')
    const reasons = new Set<string | undefined>()
    let isOver = false
    let floods = 0
    const lanes = Array.from({ length: 16 }, async () => {
      while (!isOver) {
        // The signature is another one each time, and never the right one.
        const bad = `${good.slice(0, -12)}${String(floods++).padStart(11, 'A')}A`
        const { status, headers } = await askAs(FLOODER, bad)
        reasons.add(`${status} ${headers['x-edge-reason']}`)
      }
    })
    const busy = `${isProxy ? 503 : 401} caller_check_busy`
    await until(() => reasons.has(busy))
    for (let i = 0; i < OTHERS; i++) {
      const token = tokenOf(`somebody-${i}`, 'red')
      await until(async () => (await askAs(`203.0.113.${i}`, token)).status === 200)
    }
    isOver = true
    await Promise.all(lanes)
    expect(reasons).toEqual(new Set([busy, '401 unknown_caller']))
  },
)

function tokenOf(sub: string, team: string): string {
  return signedToken('ES512', KEY, { iss: ENTRY.issuer, aud: 'edge', sub, team, exp: Math.floor(Date.now() / 1000) + 3600 })
}
