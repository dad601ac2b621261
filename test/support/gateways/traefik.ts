import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { scratchDirectory } from '../service/running.ts'
import { serverPort } from '../service/server-port.ts'
import { testPart } from '../test-part.ts'
import { askedInFields, example, type Gateway, substituted, timed, variantOf } from './gateway.ts'
import { missingUnless, runningGateway } from './gateway-process.ts'
import { statusOf } from './raw-request.ts'

const PROGRAM = testPart('traefik')
const READY = '/ready-for-tests'

export const TRAEFIK: Gateway = traefikWith(example('traefik/traefik.yml'), example('traefik/dynamic.yml'))

/** With these files in place of the examples. */
export function traefikWith(settings: string, routes: string): Gateway {
  return {
    name: 'Traefik',
    missing: missingUnless(PROGRAM, ['version'], 'Traefik'),
    door: 'forward_auth',
    asked: askedInFields('forwarded'),
    limits: { noRateLimitOnAllow: true },
    async start({ edge, backend, edgeMayTake }, variant, owner) {
      const [directory, port, ownEntry] = [await scratchDirectory(owner), await serverPort(), await serverPort()]
      const loop = { '127.0.0.1:8081': `127.0.0.1:${ownEntry}` }
      const settingsHere = substituted(settings, { '":80"': `"127.0.0.1:${port}"`, ...loop })
      const routesHere = substituted(variantOf(timed(routes, edgeMayTake), variant), {
        // It listens before it has read its routes.
        '  routers:\n': `  routers:\n    ready: { entryPoints: [web], rule: "Path(\`${READY}\`)", service: ping@internal }\n`,
        '127.0.0.1:8080': `127.0.0.1:${edge}`,
        '127.0.0.1:3000': `127.0.0.1:${backend}`,
        ...loop,
      })
      await writeFile(join(directory, 'traefik.yml'), `global: { checkNewVersion: false }\n${settingsHere}`)
      await writeFile(join(directory, 'dynamic.yml'), routesHere)
      const isReady = async () => (await statusOf(port, READY)) === 200
      return runningGateway({ program: PROGRAM, args: ['--configFile=traefik.yml'], directory, port, isReady }, owner)
    },
  }
}
