//! Searches answered in the messages of databases over gRPC: a client spends on reading these what
//! it spends on those of a store. Their order and fields are those of real servers, also where
//! nobody reads them.

use bytes::Bytes;

use crate::null::grpc::{Hit, Method};
use crate::protocols::{milvus, null, qdrant, weaviate};
use crate::transport::grpc::framed;

/// The search of every protocol over gRPC whose answer is one message.
pub const SEARCHES: &[Method] = &[
    Method {
        path: "/vectrial.Null/Search",
        found: found_null,
    },
    Method {
        path: "/milvus.proto.milvus.MilvusService/Search",
        found: found_milvus,
    },
    Method {
        path: "/weaviate.v1.Weaviate/Search",
        found: found_weaviate,
    },
    Method {
        path: "/qdrant.Points/Query",
        found: found_qdrant,
    },
];

fn found_null(hits: &[Hit]) -> Bytes {
    let (ids, scores) = hits.iter().copied().unzip();
    framed(&null::messages::Found { ids, scores })
}

/// Of a collection whose primary key is `id`.
fn found_milvus(hits: &[Hit]) -> Bytes {
    use milvus::messages::{Ids, LongArray, SearchResultData, SearchResults, Status};
    let (data, scores) = hits.iter().copied().unzip();
    let ids = Ids {
        int_id: Some(LongArray { data }),
    };
    framed(&SearchResults {
        status: Some(Status::default()),
        results: Some(SearchResultData {
            num_queries: 1,
            top_k: hits.len() as i64,
            scores,
            ids: Some(ids),
            topks: vec![hits.len() as i64],
            primary_field_name: "id".into(),
        }),
        collection_name: "null".into(),
    })
}

/// With ids and distances.
fn found_weaviate(hits: &[Hit]) -> Bytes {
    use weaviate::messages::{MetadataResult, PropertiesResult, SearchReply, SearchResult};
    let result = |(id, distance): &Hit| SearchResult {
        properties: Some(PropertiesResult {
            target_collection: "Null".into(),
        }),
        metadata: Some(MetadataResult {
            id: weaviate::uuid(*id),
            distance: *distance,
            distance_present: true,
            id_as_bytes: weaviate::uuid_number(*id).to_be_bytes().into(),
        }),
    };
    framed(&SearchReply {
        took: 0.0005,
        results: hits.iter().map(result).collect(),
    })
}

/// Points with numbers.
fn found_qdrant(hits: &[Hit]) -> Bytes {
    use qdrant::messages::{QueryResponse, ScoredPoint};
    let point = |(id, score): &Hit| ScoredPoint {
        id: Some((*id).into()),
        score: *score,
        version: 7,
    };
    framed(&QueryResponse {
        result: hits.iter().map(point).collect(),
        time: 0.0005,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Answer, Failure, Operation, Prepared};
    use crate::protocols::{milvus::Milvus, null::NullGrpc, qdrant::Qdrant, weaviate::Weaviate};
    use crate::transport::grpc::Decode;
    use proptest::prelude::*;

    type Decoder = fn(&Prepared, &[u8], &mut Answer) -> Result<(), Failure>;

    /// The decoder of each of [`SEARCHES`].
    const DECODERS: [Decoder; 4] = [
        NullGrpc::decode,
        Milvus::decode,
        Weaviate::decode,
        Qdrant::decode,
    ];

    fn request(operation: Operation) -> Prepared {
        Prepared::plain(operation, Bytes::new(), 3)
    }

    proptest! {
        #[test]
        fn ids_and_scores_come_back(hits: Vec<Hit>) {
            let (ids, scores): (Vec<i64>, Vec<f32>) = hits.iter().copied().unzip();
            for (method, decode) in SEARCHES.iter().zip(DECODERS) {
                let mut answer = Answer::default();
                let message = (method.found)(&hits).slice(5..);
                decode(&request(Operation::Search), &message, &mut answer).unwrap();
                prop_assert_eq!(&answer.ids, &ids, "{}", method.path);
                prop_assert_eq!(&answer.scores, &scores, "{}", method.path);
            }
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(
            hits: Vec<Hit>, bytes: Vec<u8>, at: proptest::sample::Index, byte: u8,
        ) {
            use Operation::{Delete, Get, Insert, Search};
            for (method, decode) in SEARCHES.iter().zip(DECODERS) {
                let mut damaged = (method.found)(&hits)[5..].to_vec();
                damaged.push(0);
                let at = at.index(damaged.len());
                damaged[at] = byte;
                for request in [Search, Get, Insert, Delete].map(request) {
                    for message in [&bytes, &damaged[..], &damaged[..at]] {
                        let _ = decode(&request, message, &mut Answer::default());
                    }
                }
            }
        }
    }
}
