import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo, LookupFunction } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { AllowedHosts } from '../outbound/allowed-hosts.ts'
import { type FetchedBundle, requestBundle } from './bundle-request.ts'

const TIMEOUT_MS = 300

test('a body that dribbles ends with the time for the whole request', async () => {
  const url = await serve((_req, res) => {
    res.writeHead(200, { 'Content-Type': 'application/yaml' })
    const timer = setInterval(() => res.write('# more\n'), 20)
    res.on('close', () => clearInterval(timer))
  })
  await expect(request(url)).rejects.toThrow('no complete response within 0.3 s')
})

test('a head that does not come ends with it too', async () => {
  await expect(request(await serve(() => {}))).rejects.toThrow('no complete response within 0.3 s')
})

test('and so do redirects that take their time', async () => {
  const url = await serve((req, res) => void setTimeout(() => res.writeHead(302, { Location: req.url }).end(), 100))
  await expect(request(url)).rejects.toThrow('no complete response within 0.3 s')
})

test('a request that is called off ends at once, and its connection with it', async () => {
  const calledOff = new AbortController()
  const closed = new Promise<void>((resolve) => {
    void serve((_req, res) => {
      res.on('close', resolve)
      calledOff.abort()
    }).then((url) => {
      request(url, calledOff.signal, 60_000).catch(() => {})
    })
  })
  await closed
})

test('five redirects are followed', async () => {
  const url = await serve((req, res) => {
    const hops = Number(req.url!.slice(1))
    if (hops < 5) res.writeHead(302, { Location: `/${hops + 1}` }).end()
    else res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': 2, ETag: '"e"', 'X-Edge-Signature': 'abc' }).end('{}')
  })
  const bundle = { bytes: Buffer.from('{}'), format: 'json', signature: 'abc' }
  expect(await request(`${url}0`, undefined, 60_000)).toEqual({ kind: 'bundle', bundle, etag: '"e"' })
})

test('a redirect to another origin is followed to hosts that are allowed alone, and never to where clouds serve metadata', async () => {
  let asked = 0
  const other = await serve((_req, res) => {
    asked++
    res.writeHead(200, { 'Content-Length': 2 }).end('{}')
  })
  const from = (to: string): Promise<string> => serve((_req, res) => res.writeHead(302, { Location: to }).end())
  const problem = 'it redirects to another origin: expected'
  await expect(request(await from(other), undefined, 60_000)).rejects.toThrow(`${problem} a host that EDGE_BACKEND_HOSTS allows`)
  for (const to of ['http://169.254.169.254/latest/', 'https://[fd00:ec2::254]/', 'http://2852039166/', 'http://10.0.0.1/'])
    await expect(request(await from(to), undefined, 60_000, ['169.254.169.254', '[fd00:ec2::254]', '10.0.0.1'])).rejects.toThrow(problem)
  expect(asked).toBe(0)
  expect(await request(await from(other), undefined, 60_000, [new URL(other).host])).toMatchObject({ kind: 'bundle' })
  expect(asked).toBe(1)
})

test('the addresses to which a redirect leads are those that its connection looks up, whatever they were before', async () => {
  let asked = 0
  const other = await serve((_req, res) => {
    asked++
    res.writeHead(200, { 'Content-Length': 2 }).end('{}')
  })
  const to = `http://localhost:${new URL(other).port}/`
  const url = await serve((_req, res) => res.writeHead(302, { Location: to }).end())
  const looked: string[] = []
  const lookup = (...addresses: string[]): LookupFunction => {
    return (hostname, _options, callback) => {
      looked.push(hostname)
      callback(null, [{ address: addresses.shift()!, family: 4 }])
    }
  }
  const asking = (found: LookupFunction) => request(url, undefined, 60_000, [new URL(to).host], found)
  for (const address of ['169.254.169.254', '10.0.0.1'])
    await expect(asking(lookup(address, '127.0.0.1'))).rejects.toThrow('it redirects to another origin: its host is')
  expect([asked, looked]).toEqual([0, ['localhost', 'localhost']])
  // There is no second look that could find another address.
  expect(await asking(lookup('127.0.0.1', '169.254.169.254'))).toMatchObject({ kind: 'bundle' })
  expect([asked, looked.length]).toEqual([1, 3])
})

test('a host with several addresses, none of which can be connected to, fails with words', async () => {
  const addresses = ['fe80::1', 'fe80::2'].map((address) => ({ address, family: 6 }))
  const lookup: LookupFunction = (_hostname, _options, callback) => void setImmediate(callback, null, addresses)
  // Which code, or which words for it, depends on the system.
  await expect(request('http://a.test/', undefined, 60_000, [], lookup)).rejects.toThrow(/\w/)
})

async function request(
  url: string,
  signal = new AbortController().signal,
  timeoutMs = TIMEOUT_MS,
  hosts: readonly string[] = [],
  lookup?: LookupFunction,
): Promise<FetchedBundle> {
  const redirectHosts = new AllowedHosts(hosts)
  return requestBundle({
    url: new URL(url),
    token: undefined,
    redirectHosts,
    etag: undefined,
    userAgent: 'test',
    timeoutMs,
    signal,
    lookup,
  })
}

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}
