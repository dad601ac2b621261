import { expect, test } from 'vitest'
import { readClusterSlots, readRedirection } from './cluster-map.ts'

const ASKED = { host: 'seed', port: 7000 }

test('a map names the master of each range, and everybody', () => {
  const reply = [
    [0, 99, ['10.0.0.1', 7001, 'id1', []], ['10.0.0.2', 7002, 'id2', []]],
    [100, 16383, ['::1', 7003, 'id3', ['hostname', 'c']]],
  ]
  expect(readClusterSlots(reply, ASKED)).toEqual({
    ranges: [
      { first: 0, last: 99, master: { host: '10.0.0.1', port: 7001 } },
      { first: 100, last: 16383, master: { host: '::1', port: 7003 } },
    ],
    members: [
      { host: '10.0.0.1', port: 7001 },
      { host: '10.0.0.2', port: 7002 },
      { host: '::1', port: 7003 },
    ],
  })
})

test.for([null, ''])('a host that is %j is the one that was asked', (host) => {
  expect(readClusterSlots([[0, 16383, [host, 7001, 'id']]], ASKED).ranges).toEqual([
    { first: 0, last: 16383, master: { host: 'seed', port: 7001 } },
  ])
})

test('a master without a name yet serves nobody', () => {
  expect(readClusterSlots([[0, 16383, ['?', 7001, 'id'], ['b', 7002, 'id']]], ASKED)).toEqual({
    ranges: [],
    members: [{ host: 'b', port: 7002 }],
  })
})

test.for([
  ['MOVED 3999 127.0.0.1:6381', { slot: 3999, endpoint: { host: '127.0.0.1', port: 6381 } }],
  ['ASK 0 a.example:1', { slot: 0, endpoint: { host: 'a.example', port: 1 } }],
  ['MOVED 16383 ::1:7000', { slot: 16383, endpoint: { host: '::1', port: 7000 } }],
  ['MOVED 1 :7001', { slot: 1, endpoint: { host: 'seed', port: 7001 } }],
  ['MOVED 1 ?:7001', undefined],
  ['MOVED 16384 a:1', undefined],
  ['MOVED __proto__ a:1', undefined],
  ['MOVED 1', undefined],
] as const)('%s', ([message, redirection]) => {
  expect(readRedirection(message, ASKED)).toEqual(redirection)
})
