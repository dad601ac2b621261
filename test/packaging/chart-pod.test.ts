import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { request } from 'node:https'
import { expect, test } from 'vitest'
import { MINIMAL } from '../support/chart/chart-cases.ts'
import { describeWithHelm, podOf, rendered } from '../support/chart/helm.ts'
import { MountedPod } from '../support/chart/mounted-pod.ts'
import type { Cli } from '../support/service/cli.ts'
import { ask } from '../support/service/http.ts'
import { serving } from '../support/service/running.ts'
import { untilLogged } from '../support/service/until-logged.ts'
import { ownPair } from '../support/tls/tls-edge.ts'
import { until } from '../support/until.ts'

const QUESTION = [
  ['X-Original-Method', 'GET'],
  ['X-Original-URI', '/'],
] as const

describeWithHelm('the program, with the environment and the volumes of a pod', () => {
  test('passes the probes, decides, and ends with status 0 and with its state saved', async () => {
    const text = await rendered({ ...MINIMAL, data: { stateFile: true }, settings: { EDGE_DRAIN_MS: 0 } })
    const pod = await MountedPod.of(text)
    const { edge, adminPort } = await started(pod)
    const { startupProbe, livenessProbe, readinessProbe } = podOf(text).containers[0]
    for (const { httpGet } of [startupProbe, livenessProbe, readinessProbe])
      expect(await ask(adminPort, 'GET', httpGet.path)).toMatchObject({ status: 200 })
    expect(await ask(edge.port, 'POST', '/v1/decision', QUESTION)).toMatchObject({ status: 200 })
    expect(await edge.stop()).toBe(0)
    expect(edge.log.map(({ event }) => event)).not.toContain('unknown_variable')
    expect(existsSync(pod.env['EDGE_STATE_FILE']!)).toBe(true)
  })

  test('reloads the bundle of an upgrade, refuses the one of a rollback, and takes the old policies under a higher version', async () => {
    const release = (version: number) => rendered({ bundle: { inline: `bundle_version: ${version}\npolicies: []\n` } })
    const first = await release(1)
    const pod = await MountedPod.of(first)
    const { edge, adminPort } = await started(pod)
    const isActive = async (version: string) =>
      (JSON.parse((await ask(adminPort, 'GET', '/readyz')).body) as { policy_version: string }).policy_version === version
    expect(await isActive('1')).toBe(true)
    await pod.update(await release(2))
    await until(() => isActive('2'))
    await pod.update(first)
    await untilLogged(edge, 'bundle_refused')
    expect(await isActive('2')).toBe(true)
    await pod.update(await release(3))
    await until(() => isActive('3'))
  })

  test('speaks TLS with the certificate of a Secret, also to probes', async () => {
    const pair = await ownPair()
    const text = await rendered({ ...MINIMAL, tls: { certificates: ['edge-tls'], listeners: ['main', 'admin'] } })
    const secret = { 'tls.crt': await readFile(pair.path, 'utf8'), 'tls.key': await readFile(pair.keyPath, 'utf8') }
    const { edge, adminPort } = await started(await MountedPod.of(text, { 'edge-tls': secret }))
    const { readinessProbe } = podOf(text).containers[0]
    expect(readinessProbe.httpGet.scheme).toBe('HTTPS')
    // As the kubelet does, which trusts any certificate.
    expect(await secureStatus(adminPort, 'GET', readinessProbe.httpGet.path)).toBe(200)
    expect(await secureStatus(edge.port, 'POST', '/v1/decision')).toBe(200)
  })
})

/** On ports that are free. */
async function started({ env }: MountedPod): Promise<{ edge: Cli; adminPort: number }> {
  const edge = await serving({ ...env, EDGE_PORT: '0', EDGE_ADMIN_PORT: '0' })
  const [{ port }] = (await untilLogged(edge, 'admin_listening')) as [{ port: number }]
  return { edge, adminPort: port }
}

function secureStatus(port: number, method: string, path: string): Promise<number | undefined> {
  const headers = Object.fromEntries(QUESTION)
  return new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port, method, path, headers, rejectUnauthorized: false, agent: false }, (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode))
    })
    asked.on('error', reject)
    asked.end()
  })
}
