import { describe, test } from 'vitest'
import { COMMON_ENDS, expectFreed, PLACE_ENDS } from '../../support/proxy/place-ends.ts'

describe('a place is free again, once, after', () => {
  test.each(PLACE_ENDS.filter(([end]) => !COMMON_ENDS.includes(end)))('%s', (_, scenario) => expectFreed(scenario))
})
