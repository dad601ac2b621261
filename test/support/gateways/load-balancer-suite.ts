import { expect, test } from 'vitest'
import { describeWith } from '../describe-with.ts'
import { ask } from '../service/http.ts'
import type { Gateway } from './gateway.ts'
import { behind } from './gateway-setup.ts'
import { recordingEdge } from './recording-edge.ts'

/** With the configuration that the gateway's page gives for one behind another load balancer, here 127.0.0.1. */
export function loadBalancerSuite(gateway: Gateway): void {
  describeWith(gateway.missing, `${gateway.name} behind another load balancer`, () => {
    test('believes the addresses that it names, and no client about the rest of the request', async () => {
      const asked = await recordingEdge(gateway)
      const { port } = await behind(gateway, asked)
      await ask(port, 'GET', '/original', [
        ['X-Forwarded-For', '203.0.113.9'],
        ['X-Forwarded-Method', 'DELETE'],
        ['X-Forwarded-Uri', '/free'],
        ['X-Forwarded-Host', 'free.example'],
        ['X-Original-Method', 'DELETE'],
        ['X-Original-URI', '/free'],
        ['X-Original-Host', 'free.example'],
      ])
      expect(asked.seen).toHaveLength(1)
      expect(gateway.asked(asked.seen[0]!)).toEqual({
        method: 'GET',
        uri: '/original',
        host: expect.stringMatching(/^127\.0\.0\.1(:\d+)?$/),
      })
      expect(asked.seen[0]!.headers['x-forwarded-for']).toMatch(/^203\.0\.113\.9(, 127\.0\.0\.1)*$/)
    })
  })
}
