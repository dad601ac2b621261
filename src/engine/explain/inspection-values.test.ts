import { expect, test } from 'vitest'
import { shownValues } from './inspection.ts'

test('credentials are shown as digests, everything else as it is', () => {
  const limitKeys = [
    'bearer',
    'cookie:session',
    'header:authorization',
    'header:cookie',
    'header:proxy-authorization',
    'header:x-key',
    'ip:address',
  ]
  const values = ['token', 'id', 'Basic x', 'sid=1', 'Basic y', 'alice', '192.0.2.1']
  expect(shownValues({ limitKeys }, values, ([value]) => `digest of ${value}`)).toEqual({
    bearer: 'digest of token',
    'cookie:session': 'digest of id',
    'header:authorization': 'digest of Basic x',
    'header:cookie': 'digest of sid=1',
    'header:proxy-authorization': 'digest of Basic y',
    'header:x-key': 'alice',
    'ip:address': '192.0.2.1',
  })
})
