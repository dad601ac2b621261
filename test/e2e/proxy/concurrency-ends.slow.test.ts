import { COMMON_ENDS, PLACE_ENDS, placeEndsSuite } from '../../support/proxy/place-ends.ts'

placeEndsSuite(PLACE_ENDS.filter(([end]) => !COMMON_ENDS.includes(end)))
