import { newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { settlingByLocator } from '../support/store/settling-by-locator.ts'
import { describeHolds } from './holds.ts'
import { describeSettlement } from './settlement.ts'

const newStore = () => settlingByLocator(newEmbeddedStore(256 * 1024))

describeHolds('EmbeddedStore, by locator', newStore)
describeSettlement('EmbeddedStore, by locator', newStore)
