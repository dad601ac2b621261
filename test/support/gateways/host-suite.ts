import { expect, test } from 'vitest'
import { blockRule, bundle, policy } from '../bundles/bundles.ts'
import type { Gateway } from './gateway.ts'
import { behind, startEdge } from './gateway-setup.ts'
import { statusOf } from './raw-request.ts'

const HOST = 'api.example.com'

/** Targets and values of Host that some reader takes for the host, or that name none: where a rule may apply, nobody guesses. */
const SPELLINGS: readonly (readonly [target: string, host: string])[] = [
  ['/', HOST],
  ['/', 'API.Example.COM:80'],
  ['/', `${HOST}.`],
  ['/', 'a?x'],
  ['/', 'a#x'],
  ['/', 'a/x'],
  ['/', 'a\\x'],
  ['/', `free.example@${HOST}`],
  ['/', `${HOST}:80:90`],
  ['/', `free.example,${HOST}`],
  ['/', `free.example\t${HOST}`],
  ['/', 'api%2eexample.com'],
  ['/', ''],
  [`http://${HOST}/`, HOST],
  [`http://${HOST}/`, 'free.example'],
  [`http://${HOST}?x`, 'free.example'],
  [`http://free.example@${HOST}/`, 'free.example'],
]

/** Hosts in odd spelling, and requests that name two. */
export function hostSuite(gateway: Gateway): void {
  test('no spelling slips past a rule for the host', async () => {
    const selector = { hosts: [HOST] }
    const edge = await startEdge({ bundle: bundle(1, policy('p', { selector, rules: [blockRule('closed')] })) })
    const { port, backend } = await behind(gateway, edge, 'fail open')
    expect(await statusOf(port, '/', 'Host: free.example\r\n')).toBe(200)
    backend.seen.pop()
    const passed = []
    for (const [target, host] of SPELLINGS) {
      const status = await statusOf(port, target, `Host: ${host}\r\n`)
      if (status < 400 || status >= 500) passed.push([target, host, status])
    }
    expect([passed, backend.seen.map(({ headers }) => headers.host)]).toEqual([[], []])
  })
}
