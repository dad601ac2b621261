import { newEmbeddedStore } from '../../src/store/embedded-store.ts'
import { settlingByPlace } from '../support/store/settling-by-place.ts'
import { describeHolds } from './holds.ts'
import { describeSettlement } from './settlement.ts'

const newStore = () => settlingByPlace(newEmbeddedStore(256 * 1024))

describeHolds('EmbeddedStore, by place', newStore)
describeSettlement('EmbeddedStore, by place', newStore)
