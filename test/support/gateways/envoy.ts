import { writeFile } from 'node:fs/promises'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { codeBlocks, readText } from '../../docs/markdown.ts'
import { scratchDirectory } from '../service/running.ts'
import { serverPort } from '../service/server-port.ts'
import { testPart } from '../test-part.ts'
import { example, type Gateway, substituted, timed, variantOf } from './gateway.ts'
import { missingUnless, runningGateway } from './gateway-process.ts'

const PROGRAM = testPart('envoy')
// One that is killed leaves its shared memory behind; without hot restarts there is none.
const ARGS = ['-c', 'envoy.yaml', '--disable-hot-restart', '--concurrency', '2', '--log-level', 'warning']

const ENVOY_MISSING = missingUnless(PROGRAM, ['--version'], 'Envoy')

/** In x-forwarded-for, Envoy names clients on its own machine by the first address of that machine. */
const OWN_ADDRESS = Object.values(networkInterfaces())
  .flatMap((addresses) => addresses ?? [])
  .find(({ family, internal }) => family === 'IPv4' && !internal)?.address

const SHARED = { missing: ENVOY_MISSING, ...(OWN_ADDRESS && { loopbackAddress: OWN_ADDRESS }), limits: { removesKeysWhenTold: true } }

export const ENVOY_EXT_AUTHZ_HTTP: Gateway = {
  ...SHARED,
  name: 'Envoy (ext_authz over HTTP)',
  door: 'ext_authz',
  asked: ({ method, url, headers }) => ({ method, uri: url.replace(/^\/v1\/ext-authz/, ''), host: headers.host }),
  start: envoyWith('envoy-ext-authz-http', 8080),
}

export const ENVOY_EXT_AUTHZ_GRPC: Gateway = {
  ...SHARED,
  name: 'Envoy (ext_authz over gRPC)',
  door: 'ext_authz_grpc',
  asked: ({ method, url, headers }) => ({ method, uri: url, host: headers.host }),
  start: envoyWith('envoy-ext-authz-grpc', 8081),
}

/** For the suite of its own: what it asks about is not a request. */
export const ENVOY_RATE_LIMIT: Gateway = {
  ...SHARED,
  name: 'Envoy (rate limit service)',
  door: 'rate_limit',
  asked: () => ({ method: undefined, uri: undefined, host: undefined }),
  start: envoyWith('envoy-rate-limit', 8081),
}

/** The same behind a load balancer, as the page says. */
export function behindLoadBalancer(gateway: Gateway, name: string): Gateway {
  const text = substituted(example(`${name}/envoy.yaml`), {
    'use_remote_address: true\n': 'use_remote_address: true\n                xff_num_trusted_hops: 1\n',
    '                        - remove: x-forwarded-for\n': '',
  })
  return { ...gateway, start: envoyWith(name, 8081, text) }
}

/** The rate limit service, with the question who calls before it, as the page says. */
export function askingWhoCalls(): Gateway {
  const [filter] = codeBlocks(readText('docs/gateways/envoy.md'), 'yaml').filter((text) => text.startsWith('- name: ask-edge-who-calls'))
  const cleared = /^ +- remove_on_match:.*\n(?: +(?:#|- remove:).*\n)+/m.exec(example('envoy-ext-authz-grpc/envoy.yaml'))![0]
  const [asks, removes] = ['                  - name: ask-edge\n', '                        - remove: x-forwarded-for\n']
  const text = substituted(example('envoy-rate-limit/envoy.yaml'), {
    [asks]: `${filter!.replaceAll(/^(?=.)/gm, ' '.repeat(18))}${asks}`,
    [removes]: `${removes}${cleared}`,
  })
  return { ...ENVOY_RATE_LIMIT, name: 'Envoy (ext_authz and the rate limit service)', start: envoyWith('envoy-rate-limit', 8081, text) }
}

/** The same asking for a reservation with every request, as somebody does who settles. */
export function settling(gateway: Gateway, name: string): Gateway {
  const asks = '                        authorization_request: { headers_to_add: [{ key: x-edge-settle, value: "1" }] }\n'
  const before = '                        authorization_response:\n'
  const text = substituted(example(`${name}/envoy.yaml`), { [before]: `${asks}${before}` })
  return { ...gateway, start: envoyWith(name, 8080, text) }
}

/** The same with a unix socket, as the page says. */
export function throughSocket(gateway: Gateway, name: string, path: string): Gateway {
  const text = substituted(example(`${name}/envoy.yaml`), {
    'socket_address: { address: 127.0.0.1, port_value: 8081 }': `pipe: { path: ${path} }`,
  })
  return { ...gateway, start: envoyWith(name, undefined, text) }
}

/** The same over TLS, as the page says, with the certificate that it is to trust. */
export function overTls(gateway: Gateway, name: string, certificate: string): Gateway {
  const [socket] = codeBlocks(readText('docs/gateways/envoy.md'), 'yaml').filter((text) => text.startsWith('transport_socket:'))
  const trusting = substituted(socket!, { '/etc/edge/ca.crt': certificate, 'edge.internal': 'localhost' })
  const cluster = '    - name: edge\n      connect_timeout: 1s\n'
  const text = substituted(example(`${name}/envoy.yaml`), { [cluster]: `${cluster}${trusting.replaceAll(/^(?=.)/gm, ' '.repeat(6))}` })
  return { ...gateway, start: envoyWith(name, 8081, text) }
}

/** Envoy with the example, in which edge has this port, if any. */
function envoyWith(name: string, edgePort: number | undefined, configuration = example(`${name}/envoy.yaml`)): Gateway['start'] {
  return async ({ edge, backend, edgeMayTake }, variant, owner) => {
    const [directory, port] = [await scratchDirectory(owner), await serverPort()]
    const text = substituted(variantOf(timed(configuration, edgeMayTake), variant), {
      'address: 0.0.0.0, port_value: 10000': `address: 127.0.0.1, port_value: ${port}`,
      ...(edgePort !== undefined && { [`port_value: ${edgePort}`]: `port_value: ${edge}` }),
      'port_value: 3000': `port_value: ${backend}`,
    })
    await writeFile(join(directory, 'envoy.yaml'), text)
    return runningGateway({ program: PROGRAM, args: ARGS, directory, port }, owner)
  }
}
