//! What databases over gRPC answer to a search, in their own messages: a client spends on reading
//! these what it spends on those of a store. Their order and fields are those of real servers
//!, also where nobody reads them.

use bytes::Bytes;

use crate::codec::protobuf::{
    put_bytes, put_fixed32, put_fixed64, put_floats, put_message, put_number, put_packed,
};
use crate::null::grpc::Method;
use crate::protocols::null::{ANSWER_IDS, ANSWER_SCORES};
use crate::protocols::weaviate::uuid;
use crate::transport::grpc::framed;

/// The search of every protocol over gRPC whose answer is one message.
pub const SEARCHES: &[Method] = &[
    Method {
        path: "/vectrial.Null/Search",
        found: null,
    },
    Method {
        path: "/milvus.proto.milvus.MilvusService/Search",
        found: milvus,
    },
    Method {
        path: "/weaviate.v1.Weaviate/Search",
        found: weaviate,
    },
    Method {
        path: "/qdrant.Points/Query",
        found: qdrant,
    },
];

fn scores(k: usize) -> impl Iterator<Item = f32> {
    (0..k).map(|at| at as f32 / 64.0)
}

fn null(k: usize, id: fn(u64) -> u64) -> Bytes {
    framed(|out| {
        put_packed(out, ANSWER_IDS, (0..k as u64).map(id));
        put_floats(out, ANSWER_SCORES, &scores(k).collect::<Vec<_>>());
    })
}

/// `milvus.SearchResults` of a collection whose primary key is `id`.
fn milvus(k: usize, id: fn(u64) -> u64) -> Bytes {
    framed(|out| {
        put_message(out, 1, |_| ()); // status: success
        put_message(out, 2, |results| {
            put_number(results, 1, 1); // queries
            put_number(results, 2, k as u64);
            put_floats(results, 4, &scores(k).collect::<Vec<_>>());
            put_message(results, 5, |ids| {
                put_message(ids, 1, |longs| {
                    put_packed(longs, 1, (0..k as u64).map(id));
                });
            });
            put_packed(results, 6, [k as u64]);
            put_bytes(results, 13, b"id"); // name of the primary key
        });
        put_bytes(out, 3, b"null");
    })
}

/// `weaviate.v1.SearchReply` with ids and distances.
fn weaviate(k: usize, id: fn(u64) -> u64) -> Bytes {
    framed(|out| {
        put_fixed32(out, 1, 0.0005f32.to_le_bytes()); // seconds taken
        for (at, score) in (0..).zip(scores(k)) {
            put_message(out, 2, |result| {
                put_message(result, 1, |properties| put_bytes(properties, 3, b"Null"));
                put_message(result, 2, |metadata| {
                    let text = uuid(id(at) as i64);
                    put_bytes(metadata, 1, &text);
                    put_fixed32(metadata, 7, score.to_le_bytes());
                    put_number(metadata, 8, 1); // there is a distance
                    put_bytes(metadata, 20, &whole(&text));
                });
            });
        }
    })
}

/// The 16 bytes of a uuid.
fn whole(text: &[u8]) -> [u8; 16] {
    let digits = text
        .iter()
        .filter_map(|digit| char::from(*digit).to_digit(16));
    let whole = digits.fold(0, |whole, digit| whole << 4 | u128::from(digit));
    whole.to_be_bytes()
}

/// `qdrant.QueryResponse` of points with numbers.
fn qdrant(k: usize, id: fn(u64) -> u64) -> Bytes {
    framed(|out| {
        for (at, score) in (0..).zip(scores(k)) {
            put_message(out, 1, |point| {
                put_message(point, 1, |number| put_number(number, 1, id(at)));
                put_fixed32(point, 3, score.to_le_bytes());
                put_number(point, 5, 7); // version
            });
        }
        put_fixed64(out, 2, 0.0005f64.to_le_bytes()); // seconds taken
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Answer, Operation, Prepared};
    use crate::protocols::{milvus::Milvus, null::NullGrpc, qdrant::Qdrant, weaviate::Weaviate};
    use crate::transport::grpc::Decode;

    #[test]
    fn every_answer_is_read_by_its_own_protocol() {
        let readers = [
            NullGrpc::decode,
            Milvus::decode,
            Weaviate::decode,
            Qdrant::decode,
        ];
        let request = Prepared::plain(Operation::Search, Bytes::new(), 1);
        for (method, decode) in SEARCHES.iter().zip(readers) {
            for k in [0, 1, 300] {
                let mut answer = Answer::default();
                let message = (method.found)(k, |id| id).slice(5..);
                decode(&request, &message, &mut answer).unwrap();
                assert_eq!(
                    answer.ids,
                    (0..k as i64).collect::<Vec<_>>(),
                    "{}",
                    method.path
                );
                assert!(
                    answer.scores.iter().copied().eq(scores(k)),
                    "{}",
                    method.path
                );
            }
        }
    }
}
